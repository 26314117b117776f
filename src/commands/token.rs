//! `dispatcher token`: makes a token for the API.

use clap::{Args, ValueEnum};
use data_encoding::BASE64URL_NOPAD;
use rustls::crypto::SecureRandom;

use super::output;
use crate::domain::access::{AccessRole, AccessToken, TokenHash};
use crate::settings::SettingsError;

/// What the text of a token begins with, so that whoever finds one knows what it is.
const PREFIX: &str = "dsp_";

/// Random bytes of a token.
const BYTES: usize = 32;

/// Options of `token`.
#[derive(Debug, Args)]
#[command(after_help = "\
The token is printed once, on standard output. What goes into the settings file is its hash, printed on standard error.

Example:
  dispatcher token wall --role viewer")]
pub(super) struct TokenOptions {
    /// Whose it is: letters, digits, '.', '_' and '-'
    name: String,
    /// What it allows
    #[arg(long, value_enum)]
    role: RoleOption,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RoleOption {
    /// See everything but payloads, and change nothing
    Viewer,
    /// See everything, and act
    Operator,
}

impl From<RoleOption> for AccessRole {
    fn from(role: RoleOption) -> Self {
        match role {
            RoleOption::Viewer => Self::Viewer,
            RoleOption::Operator => Self::Operator,
        }
    }
}

pub(super) fn run(options: &TokenOptions) -> anyhow::Result<()> {
    let secret = fresh(rustls::crypto::ring::default_provider().secure_random)?;
    let lines = settings_of(&options.name, options.role.into(), &secret)?;
    output::line(&secret)?;
    output::note(
        "The line above is the token: it is shown only now. Into the settings file of the service goes:\n",
    );
    output::note(&lines);
    Ok(())
}

fn fresh(random: &dyn SecureRandom) -> anyhow::Result<String> {
    let mut bytes = [0; BYTES];
    random.fill(&mut bytes).map_err(|_| anyhow::anyhow!("this machine gives no random bytes"))?;
    Ok(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes)))
}

/// What stands in the settings of a token.
fn settings_of(name: &str, role: AccessRole, secret: &str) -> Result<String, SettingsError> {
    let token = AccessToken::named(name, role, TokenHash::of(secret))
        .map_err(|problem| SettingsError::new("NAME", problem))?;
    let (name, role, hash) = (&token.caller.name, token.caller.role.as_str(), token.hash.to_hex());
    Ok(format!("[[api.tokens]]\nname = \"{name}\"\nrole = \"{role}\"\nsha256 = \"{hash}\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Settings, Sources};

    #[test]
    fn what_is_printed_is_what_the_settings_take() {
        let random = rustls::crypto::ring::default_provider().secure_random;
        let (secret, other) = (fresh(random).unwrap(), fresh(random).unwrap());
        assert!(secret.starts_with(PREFIX) && secret.len() == 47 && secret != other, "{secret}");
        let lines = settings_of("wall", AccessRole::Viewer, &secret).unwrap();
        assert!(!lines.contains(&secret));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), lines).unwrap();
        let settings =
            Settings::load(&Sources { file: Some(file.path().to_owned()), ..Sources::default() }).unwrap();
        let access = settings.api.access().unwrap();
        let caller = &access.find(&secret).unwrap().caller;
        assert_eq!((&*caller.name, caller.role), ("wall", AccessRole::Viewer));
    }

    #[test]
    fn a_name_that_the_settings_refuse_is_a_mistake_in_the_command() {
        let err = settings_of("admin", AccessRole::Operator, "x").unwrap_err();
        assert!(err.to_string().starts_with("NAME: "), "{err}");
    }
}
