//! What the settings must fulfil beyond their types.

use std::time::Duration;

use super::{Settings, SettingsError};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Settings {
    /// Ranges, and pairs of settings that exclude each other.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let is_name = |text: &str| {
            !text.is_empty()
                && text.len() <= 200
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        let name = "must be letters, digits, '.', '_' and '-', at most 200";
        require(is_name(&self.source.prefix), "source.prefix", name)?;
        require(is_name(&self.source.group), "source.group", name)?;
        require(is_name(&self.mongo.prefix), "mongo.prefix", name)?;
        require(!self.data_dir.as_os_str().is_empty(), "data_dir", "must not be empty")?;

        require((1..=1024).contains(&self.transfer.partitions), "transfer.partitions", "must be 1 to 1024")?;
        within("transfer.retention", self.transfer.retention, MINUTE, 3650 * DAY)?;

        let delivery = &self.delivery;
        let positive = "must be at least 1";
        require(delivery.client_records >= 1, "delivery.client_records", positive)?;
        require(delivery.client_bytes >= 1024, "delivery.client_bytes", "must be at least 1KiB")?;
        require(
            delivery.total_bytes >= delivery.client_bytes,
            "delivery.total_bytes",
            "must not be below delivery.client_bytes",
        )?;
        require(delivery.unsettled_per_partition >= 1, "delivery.unsettled_per_partition", positive)?;
        require(delivery.threads <= 256, "delivery.threads", "must be 0 to 256")?;
        within("delivery.insurance_after", delivery.insurance_after, Duration::from_millis(10), MINUTE)?;
        within("delivery.idle_after", delivery.idle_after, Duration::from_millis(10), DAY)?;
        within("delivery.connect_timeout", delivery.connect_timeout, Duration::from_millis(10), MINUTE)?;
        require(
            (1024..=16 << 20).contains(&delivery.answer_bytes),
            "delivery.answer_bytes",
            "must be 1KiB to 16MiB",
        )?;

        let retry = &self.retry;
        within("retry.base", retry.base, Duration::from_millis(1), DAY)?;
        require(retry.cap >= retry.base, "retry.cap", "must not be below retry.base")?;
        within("retry.cap", retry.cap, Duration::from_millis(1), DAY)?;
        require((1.0..=10.0).contains(&retry.factor), "retry.factor", "must be 1 to 10")?;
        require((0.0..=0.9).contains(&retry.jitter), "retry.jitter", "must be 0 to 0.9")?;
        require(retry.payload_attempts >= 1, "retry.payload_attempts", positive)?;

        within("stop.in_flight", self.stop.in_flight, Duration::ZERO, 10 * MINUTE)?;
        if let Some(path) = &self.tls.ca_file
            && let Err(err) = std::fs::File::open(path)
        {
            return Err(SettingsError::new("tls.ca_file", format!("cannot read {}: {err}", path.display())));
        }
        Ok(())
    }
}

fn require(holds: bool, key: &str, problem: &str) -> Result<(), SettingsError> {
    if holds { Ok(()) } else { Err(SettingsError::new(key, problem)) }
}

fn within(key: &str, value: Duration, least: Duration, most: Duration) -> Result<(), SettingsError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let shown = humantime::format_duration;
    Err(SettingsError::new(key, format!("must be {} to {}", shown(least), shown(most))))
}
