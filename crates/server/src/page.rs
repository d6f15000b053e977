//! Lists: `limit` (20, at most 500), `offset`, an opaque `cursor` for deep paging, and `count=true` for a capped total.
//!
//! A handler asks its store for [`Page::fetch`] rows (one more than shown), from [`Page::after`] if there is one, and
//! answers with [`Page::list`]. A cursor names the list it belongs to and carries a typed position: one that was made up
//! is refused, and one that was changed shows nothing that its bearer may not see anyway, since every page is authorised.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
pub(crate) use mainspring_api::List;
pub(crate) use mainspring_api::page::MOST_COUNTED;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::IntoParams;

use crate::body::Query;
use crate::problem::Problem;

const USUAL: i64 = 20;
const MOST: i64 = 500;
const DEEPEST_OFFSET: i64 = 100_000;
const CHECK_BYTES: usize = 6;

/// Which part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) limit: i64,
    /// Whether the request says the limit.
    is_limited: bool,
    pub(crate) offset: i64,
    /// Whether the total is wanted.
    pub(crate) count: bool,
    cursor: Option<String>,
}

/// The parameters of every list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// How many, at most 500
    #[param(default = 20, maximum = 500, minimum = 1)]
    limit: Option<i64>,
    /// How many to leave out; at most 100000, use `cursor` to go deeper
    #[param(minimum = 0, maximum = 100000)]
    offset: Option<i64>,
    /// `next` of the page before
    cursor: Option<String>,
    /// Whether to count all, up to 10000; lists that grow without end (audit, schedules, task runs) give no `total`
    count: Option<bool>,
}

impl Page {
    /// The same with another limit where the request says none.
    pub(crate) fn or_limit(mut self, usual: i64) -> Self {
        if !self.is_limited {
            self.limit = usual;
        }
        self
    }

    /// How many rows to ask for: one more tells whether there is a next page.
    pub(crate) fn fetch(&self) -> i64 {
        self.limit + 1
    }

    /// The position after which this page begins.
    pub(crate) fn after<P: DeserializeOwned>(&self, list: &str) -> Result<Option<P>, Problem> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let read = || -> Option<P> {
            let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
            let (check, position) = bytes.split_at_checked(CHECK_BYTES)?;
            if checksum(list, position) != check {
                return None;
            }
            // No database takes it, and no list begins there.
            let holds_nul = position.windows(6).any(|part| part == b"\\u0000");
            (!holds_nul).then(|| serde_json::from_slice(position).ok())?
        };
        read().map(Some).ok_or_else(|| {
            Problem::malformed("the cursor is not one of this list: begin without one, and pass on `next` as it is")
        })
    }

    /// Removes the rows that the offset leaves out, where the statement has no `OFFSET`.
    pub(crate) fn skip<R>(&self, rows: &mut Vec<R>) {
        rows.drain(..rows.len().min(usize::try_from(self.offset).unwrap_or(0)));
    }

    /// The total, counted only if the request asks for it.
    pub(crate) async fn total<E>(&self, count: impl Future<Output = Result<i64, E>>) -> Result<Option<i64>, E> {
        match self.count {
            true => count.await.map(Some),
            false => Ok(None),
        }
    }

    /// The answer, from up to [`Page::fetch`] rows.
    pub(crate) fn list<R, T, P: Serialize>(
        &self,
        list: &str,
        mut rows: Vec<R>,
        position: impl Fn(&R) -> P,
        show: impl FnMut(R) -> T,
    ) -> List<T> {
        let limit = usize::try_from(self.limit).unwrap_or(0);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|last| cursor(list, &position(last)));
        List { items: rows.into_iter().map(show).collect(), next, total: None }
    }

    /// The same from everything there is, for lists that are short by nature.
    pub(crate) fn slice<R, T>(&self, list: &str, rows: Vec<R>, show: impl FnMut(R) -> T) -> Result<List<T>, Problem> {
        let total = i64::try_from(rows.len()).unwrap_or(i64::MAX).min(MOST_COUNTED);
        let begin = self.after::<i64>(list)?.unwrap_or(self.offset).max(0);
        let end = begin.saturating_add(self.limit);
        let more = i64::try_from(rows.len()).unwrap_or(i64::MAX) > end;
        let items: Vec<T> = rows
            .into_iter()
            .skip(usize::try_from(begin).unwrap_or(usize::MAX))
            .take(usize::try_from(self.limit).unwrap_or(0))
            .map(show)
            .collect();
        Ok(List { items, next: more.then(|| cursor(list, &end)), total: self.count.then_some(total) })
    }
}

fn cursor<P: Serialize>(list: &str, position: &P) -> String {
    let position = serde_json::to_vec(position).unwrap_or_default();
    let mut bytes = checksum(list, &position).to_vec();
    bytes.extend(position);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn checksum(list: &str, position: &[u8]) -> [u8; CHECK_BYTES] {
    let mut digest = Sha256::new();
    digest.update(list.as_bytes());
    digest.update([0]);
    digest.update(position);
    let whole: [u8; 32] = digest.finalize().into();
    std::array::from_fn(|index| whole[index])
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(params) = Query::<PageParams>::from_request_parts(parts, state).await?;
        Self::try_from(params)
    }
}

impl TryFrom<PageParams> for Page {
    type Error = Problem;

    fn try_from(params: PageParams) -> Result<Self, Problem> {
        let limit = params.limit.unwrap_or(USUAL);
        if !(1..=MOST).contains(&limit) {
            return Err(Problem::malformed(format!("limit is {limit}, but must be from 1 to {MOST}")));
        }
        let offset = params.offset.unwrap_or(0);
        if !(0..=DEEPEST_OFFSET).contains(&offset) {
            return Err(Problem::malformed(format!(
                "offset is {offset}, but must be from 0 to {DEEPEST_OFFSET}: pass on `next` as `cursor` to go deeper"
            )));
        }
        if params.cursor.is_some() && params.offset.is_some() {
            return Err(Problem::malformed("a cursor and an offset exclude each other: send one of them"));
        }
        let is_limited = params.limit.is_some();
        Ok(Self { limit, is_limited, offset, count: params.count.unwrap_or(false), cursor: params.cursor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(cursor: Option<String>) -> Page {
        Page { limit: 2, is_limited: true, offset: 0, count: false, cursor }
    }

    #[test]
    fn pages_follow_each_other_to_the_end() {
        let first = page(None).list("numbers", vec![1, 2, 3], |number| *number, |number| number);
        assert_eq!(first.items, [1, 2]);
        let after: Option<i32> = page(first.next).after("numbers").unwrap();
        assert_eq!(after, Some(2));
        let last = page(None).list("numbers", vec![3], |number| *number, |number| number);
        assert!(last.next.is_none());
    }

    #[test]
    fn cursors_that_were_made_up_are_refused() {
        let real = cursor("numbers", &7);
        assert_eq!(page(Some(real.clone())).after::<i32>("numbers").unwrap(), Some(7));
        assert!(page(Some(real.clone())).after::<i32>("letters").is_err(), "another list's");
        assert!(page(Some(real.clone())).after::<String>("numbers").is_err(), "another type's");
        assert!(page(Some(cursor("names", &"a\0b"))).after::<String>("names").is_err(), "a NUL");
        for wrong in ["", "x", "AAAAAAAAAAAA", "../..", &real[1..]] {
            assert!(page(Some(wrong.into())).after::<i32>("numbers").is_err(), "{wrong}");
        }
    }

    #[test]
    fn short_lists_are_cut() {
        let list = page(None).slice("s", vec![1, 2, 3], |number| number).unwrap();
        assert_eq!(list.items, [1, 2]);
        let rest = page(list.next).slice("s", vec![1, 2, 3], |number| number).unwrap();
        assert_eq!((rest.items, rest.next), (vec![3], None));
    }
}
