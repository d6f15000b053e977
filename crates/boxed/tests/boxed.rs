//! What `#[boxed]` makes of functions: the same to await, and a box to the compiler.
#![expect(unreachable_pub, reason = "only public functions are boxed")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mainspring_boxed::boxed;

struct Shelf {
    books: Vec<String>,
}

struct Wanted<'a> {
    title: &'a str,
}

#[boxed]
impl Shelf {
    pub async fn find(&self, wanted: &Wanted<'_>, limit: usize) -> Result<Vec<&str>, String> {
        let found: Vec<&str> =
            self.books.iter().filter(|book| book.contains(wanted.title)).map(String::as_str).collect();
        let first = found.first().ok_or_else(|| format!("nothing like {}", wanted.title))?;
        Ok(if limit == 0 { vec![*first] } else { found.into_iter().take(limit).collect() })
    }

    pub async fn put(&mut self, mut book: String) {
        book.push('.');
        self.books.push(book);
    }

    pub async fn count(self: &Arc<Self>) -> usize {
        self.books.len()
    }

    pub async fn length<T: AsRef<str>>(&self, of: T) -> usize {
        of.as_ref().len()
    }
}

#[boxed]
pub async fn keep(_held: Arc<()>) {
    std::future::pending().await
}

#[boxed]
pub async fn longest<'a>(titles: &'a [&'a str], than: &str) -> Option<&'a str> {
    titles.iter().copied().filter(|title| title.len() > than.len()).max_by_key(|title| title.len())
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What is awaited here never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn what_is_boxed_is_awaited_as_before() {
    let mut shelf = Shelf { books: vec!["Dune".into()] };
    now(shelf.put("Dune Messiah".into()));
    assert_eq!(now(shelf.find(&Wanted { title: "Dune" }, 5)), Ok(vec!["Dune", "Dune Messiah."]));
    assert_eq!(now(shelf.find(&Wanted { title: "Emma" }, 5)), Err("nothing like Emma".to_owned()));
    assert_eq!(now(shelf.length("four")), 4);
    assert_eq!(now(Arc::new(shelf).count()), 2);
    assert_eq!(now(longest(&["a", "abc", "ab"], "a")), Some("abc"));
}

#[test]
fn what_is_not_used_is_held_as_long_as_the_future() {
    let held = Arc::new(());
    let future = keep(Arc::clone(&held));
    assert_eq!(Arc::strong_count(&held), 2);
    drop(future);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn only_what_is_not_generic_is_boxed_and_it_can_be_sent() {
    let shelf = Shelf { books: Vec::new() };
    let wanted = Wanted { title: "" };
    let boxed: Boxed<'_, Result<Vec<&str>, String>> = shelf.find(&wanted, 1);
    assert_eq!(size_of_val(&boxed), 2 * size_of::<usize>());
    assert!(now(boxed).is_err());
    assert!(size_of_val(&shelf.length(String::from("a future of its own"))) > 2 * size_of::<usize>());
}
