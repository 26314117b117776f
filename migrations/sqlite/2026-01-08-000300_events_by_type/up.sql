-- Operational events of one type, in their order.
CREATE INDEX operational_events_happening ON operational_events (happening, id);
