//! Named tokens: `[[api.tokens]]`. The one list of sections, so it is taken out of a layer before that is compared with the defaults.

use config::{Map, Value, ValueKind};

use super::{Api, SettingsError};
use crate::domain::access::{AccessRole, AccessToken, AccessTokens, TokenHash};

/// The key of the list.
pub(super) const KEY: &str = "api.tokens";

/// Takes the list out of a layer.
pub(super) fn take_from(
    layer: &mut Map<String, Value>,
    tokens: &mut Vec<AccessToken>,
) -> Result<(), SettingsError> {
    let Some(Value { kind: ValueKind::Table(api), .. }) = layer.get_mut("api") else {
        return Ok(());
    };
    let Some(list) = api.remove("tokens") else { return Ok(()) };
    let ValueKind::Array(list) = list.kind else {
        return Err(SettingsError::new(KEY, "expected sections, [[api.tokens]]"));
    };
    *tokens =
        list.into_iter().enumerate().map(|(place, value)| token(place, value)).collect::<Result<_, _>>()?;
    Ok(())
}

fn token(place: usize, value: Value) -> Result<AccessToken, SettingsError> {
    let key = format!("{KEY}[{place}]");
    let ValueKind::Table(mut members) = value.kind else {
        return Err(SettingsError::new(key, "expected a section with name, role and sha256"));
    };
    let mut text = |name: &str| match members.remove(name).map(|value| value.kind) {
        Some(ValueKind::String(text)) => Ok(text),
        Some(_) => Err(SettingsError::new(format!("{key}.{name}"), "expected a string")),
        None => Err(SettingsError::new(format!("{key}.{name}"), "is missing")),
    };
    let (name, role, hash) = (text("name")?, text("role")?, text("sha256")?);
    if let Some(unknown) = members.keys().min() {
        return Err(SettingsError::new(format!("{key}.{unknown}"), "there is no such key"));
    }
    let fault = |member: &str, problem| SettingsError::new(format!("{key}.{member}"), problem);
    let role: AccessRole = role.parse().map_err(|problem| fault("role", problem))?;
    let hash = TokenHash::parse(&hash).map_err(|problem| fault("sha256", problem))?;
    AccessToken::named(&name, role, hash).map_err(|problem| fault("name", problem))
}

impl Api {
    /// The admin token, if there is one, and the named ones.
    ///
    /// # Errors
    /// When two have one name, or are one token.
    pub fn access(&self) -> Result<AccessTokens, SettingsError> {
        let admin = self.admin_token.as_ref().map(AccessToken::admin);
        let is_admin_there = usize::from(admin.is_some());
        let all = admin.into_iter().chain(self.tokens.iter().cloned()).collect();
        AccessTokens::new(all).map_err(|(place, member)| {
            let place = place.saturating_sub(is_admin_there);
            SettingsError::new(format!("{KEY}[{place}].{member}"), "is that of another token")
        })
    }

    /// Whether everybody needs a token; else only this machine is answered.
    pub fn needs_token(&self) -> bool {
        self.admin_token.is_some() || !self.tokens.is_empty()
    }
}
