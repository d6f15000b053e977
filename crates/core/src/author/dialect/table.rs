//! What a table of keys is made of.

/// The keys of one mapping.
#[derive(Debug)]
pub(crate) struct Table {
    /// How a message names the mapping.
    pub(crate) what: &'static str,
    pub(crate) keys: &'static [Key],
    /// Exactly one of these must be there; none: no such rule.
    pub(crate) one_of: &'static [&'static str],
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) shape: Shape,
    pub(crate) about: &'static str,
}

/// What may stand behind a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// A scalar, read as text.
    Text,
    Name,
    Identifier,
    Event,
    Duration,
    /// A duration, or a text with an expression.
    DurationTemplate,
    Instant,
    InstantTemplate,
    Size,
    Boolean,
    True,
    Integer(i64, i64),
    Number(f64, f64),
    AnyNumber,
    Priority,
    Status,
    Word(fn() -> Vec<&'static str>),
    Any,
    Object,
    List(&'static Shape),
    OneOrMany(&'static Shape),
    /// Names chosen by the author → values.
    Map(&'static Shape),
    Table(&'static Table),
    Either(&'static [Shape]),
    /// Tasks as a list, which only JSON may give.
    ListedTasks,
}

impl Table {
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().map(|key| key.name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.name == name)
    }
}

pub(super) const fn key(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, required: false, shape, about }
}

pub(super) const fn required(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, required: true, shape, about }
}

macro_rules! words {
    ($kind:ty) => {
        Shape::Word(|| <$kind>::ALL.iter().map(|word| word.word()).collect())
    };
}
pub(super) use words;
