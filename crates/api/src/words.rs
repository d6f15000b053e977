//! Closed sets of words: an enum in Rust, an enum in OpenAPI.

/// A word that a closed set does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord {
    pub word: String,
    pub known: Vec<&'static str>,
}

impl std::fmt::Display for UnknownWord {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown: String = self.word.chars().take(40).flat_map(char::escape_default).collect();
        write!(formatter, "`{shown}` is not one of {}", self.known.join(", "))
    }
}

impl std::error::Error for UnknownWord {}

macro_rules! closed_set {
    ($(#[doc = $says:literal])+ $name:ident { $($variant:ident = $word:literal,)+ }) => {
        $(#[doc = $says])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $(#[serde(rename = $word)] $variant,)+
        }

        impl $name {
            pub const ALL: [Self; [$($word,)+].len()] = [$(Self::$variant,)+];

            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        // Written out: the derive does not see through a literal that a macro passes on, and would describe the names of
        // the variants.
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some(concat!($($says),+).trim()))
                    .enum_values(Some(Self::ALL.map(Self::word)))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.word())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.into_iter().find(|one| one.word() == text).ok_or_else(|| $crate::words::UnknownWord {
                    word: text.to_owned(),
                    known: Self::ALL.iter().map(|one| one.word()).collect(),
                })
            }
        }
    };
}
pub(crate) use closed_set;

#[cfg(test)]
mod tests {
    use utoipa::PartialSchema;

    use crate::jobs::JobType;

    #[test]
    fn a_closed_set_is_described_by_the_words_that_are_sent() {
        let described = serde_json::to_value(JobType::schema()).unwrap();
        let sent = serde_json::to_value(JobType::ALL).unwrap();
        assert_eq!(described["enum"], sent);
        assert_eq!(sent[1], "one_time");
        assert_eq!(described["description"], "What fires a job.");
    }
}
