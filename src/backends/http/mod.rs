//! Webhook requests by awc.
