DROP TABLE operational_event_readers;
DROP TABLE operational_events;
