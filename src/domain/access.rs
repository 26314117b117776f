//! Who may use the API, and for what: named tokens, of which only the hashes are kept.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::config::Secret;

/// The name of the token that is given as it is, not by its hash.
pub const ADMIN: &str = "admin";

/// The name of whoever asks from this machine, while no token is needed.
pub const LOOPBACK: &str = "loopback";

const NAME_BYTES: usize = 64;

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessRole {
    /// Sees everything but payloads, and changes nothing.
    Viewer,
    /// Sees everything, and acts.
    Operator,
}

impl AccessRole {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Viewer, Self::Operator];

    /// The word in the settings and in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }
}

impl std::str::FromStr for AccessRole {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or("must be viewer or operator")
    }
}

/// The SHA-256 of a token. Tokens are long and random, so that nobody finds one by its hash.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Reads 64 hex digits.
    ///
    /// # Errors
    /// When it is anything else. Does not say what it is: it may be the token itself.
    pub fn parse(hex: &str) -> Result<Self, &'static str> {
        const PROBLEM: &str = "must be the SHA-256 of the token, 64 hex digits";
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).map_err(|_| PROBLEM)?;
        Ok(Self(bytes.try_into().map_err(|_| PROBLEM)?))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 hex digits.
    pub fn to_hex(&self) -> String {
        data_encoding::HEXLOWER.encode(&self.0)
    }

    /// Compares to the end: how much is alike does not show in the time.
    fn is(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caller {
    /// The name of the token, or [`LOOPBACK`].
    pub name: Arc<str>,
    /// What that allows.
    pub role: AccessRole,
}

impl Caller {
    /// Whoever asks from this machine, while no token is needed.
    pub fn loopback() -> Self {
        Self { name: LOOPBACK.into(), role: AccessRole::Operator }
    }
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// Whose it is, and what it allows.
    pub caller: Caller,
    /// What it is known by.
    pub hash: TokenHash,
}

impl AccessToken {
    /// A token of the settings.
    ///
    /// # Errors
    /// When the name is not 1 to 64 letters, digits, `.`, `_` and `-`, or one that has its meaning already.
    pub fn named(name: &str, role: AccessRole, hash: TokenHash) -> Result<Self, &'static str> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=NAME_BYTES).contains(&name.len()) || !name.bytes().all(fits) {
            return Err("must be letters, digits, '.', '_' and '-', at most 64");
        }
        if name == ADMIN || name == LOOPBACK {
            return Err("this name is taken: admin has api.admin_token, loopback is who needs no token");
        }
        Ok(Self { caller: Caller { name: name.into(), role }, hash })
    }

    /// The token that is given as it is: an operator.
    pub fn admin(token: &Secret) -> Self {
        let caller = Caller { name: ADMIN.into(), role: AccessRole::Operator };
        Self { caller, hash: TokenHash::of(token.expose()) }
    }
}

/// All tokens. While there is none, only this machine is answered.
#[derive(Debug, Clone, Default)]
pub struct AccessTokens(Vec<AccessToken>);

impl AccessTokens {
    /// These, of which no two have one name or one hash.
    ///
    /// # Errors
    /// The place of the first that is like an earlier one, and by what: `name` or `sha256`.
    pub fn new(tokens: Vec<AccessToken>) -> Result<Self, (usize, &'static str)> {
        for (place, token) in tokens.iter().enumerate() {
            let earlier = &tokens[..place];
            if earlier.iter().any(|earlier| earlier.caller.name == token.caller.name) {
                return Err((place, "name"));
            }
            if earlier.iter().any(|earlier| earlier.hash == token.hash) {
                return Err((place, "sha256"));
            }
        }
        Ok(Self(tokens))
    }

    /// Whether nobody needs one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The token that this text is. All are looked at, so that the time tells nothing.
    pub fn find(&self, text: &str) -> Option<&AccessToken> {
        let hash = TokenHash::of(text);
        self.0.iter().fold(None, |found, token| if token.hash.is(&hash) { Some(token) } else { found })
    }

    /// The token of this name.
    pub fn named(&self, name: &str) -> Option<&AccessToken> {
        self.0.iter().find(|token| &*token.caller.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str, text: &str) -> AccessToken {
        AccessToken::named(name, AccessRole::Viewer, TokenHash::of(text)).unwrap()
    }

    #[test]
    fn a_token_is_found_by_all_of_itself() {
        let tokens =
            AccessTokens::new(vec![AccessToken::admin(&Secret::new("sesame")), token("wall", "open")]);
        let tokens = tokens.unwrap();
        assert_eq!(tokens.find("open").unwrap().caller.name.as_ref(), "wall");
        assert_eq!(tokens.find("sesame").unwrap().caller.role, AccessRole::Operator);
        for wrong in ["", "ope", "open ", "OPEN", &TokenHash::of("open").to_hex()] {
            assert!(tokens.find(wrong).is_none(), "{wrong:?}");
        }
        assert!(AccessTokens::default().find("").is_none());
    }

    #[test]
    fn two_tokens_differ_in_name_and_hash() {
        let admin = || AccessToken::admin(&Secret::new("sesame"));
        let refused = |tokens| AccessTokens::new(tokens).unwrap_err();
        assert_eq!(refused(vec![admin(), token("a", "1"), token("a", "2")]), (2, "name"));
        assert_eq!(refused(vec![admin(), token("a", "1"), token("b", "1")]), (2, "sha256"));
        assert_eq!(refused(vec![admin(), token("a", "sesame")]), (1, "sha256"));
    }

    #[test]
    fn a_name_has_no_other_meaning() {
        let hash = TokenHash::of("x");
        for name in ["", "a b", "a/b", "å", "a\n", "admin", "loopback", &"a".repeat(65)] {
            assert!(AccessToken::named(name, AccessRole::Viewer, hash.clone()).is_err(), "{name:?}");
        }
        assert!(AccessToken::named("Wall-1.b_2", AccessRole::Viewer, hash).is_ok());
    }

    #[test]
    fn a_hash_is_64_hex_digits_and_never_shown() {
        let hash = TokenHash::of("sesame");
        assert_eq!(TokenHash::parse(&hash.to_hex()), Ok(hash.clone()));
        assert_eq!(TokenHash::parse(&hash.to_hex().to_uppercase()), Ok(hash.clone()));
        for broken in ["", "sesame", &hash.to_hex()[1..], &format!("{}g", &hash.to_hex()[1..])] {
            let problem = TokenHash::parse(broken).unwrap_err();
            assert!(!problem.contains("sesame"), "{problem}");
        }
        assert_eq!(format!("{hash:?}"), "TokenHash");
    }
}
