//! One transaction around everything that a request writes.
//!
//! A request claims its idempotency key, does its work, and leaves an audit row and the answer that a repetition gets. All
//! of that is one commit: a process that dies, or a connection that breaks, leaves all of it or nothing. The work itself
//! is made of the store's ordinary units, which know nothing of the request: within [`Unit::scope`] they join its
//! transaction. A unit that fails is undone alone (a savepoint), so that what calls it may repeat it or go on.
//!
//! The transaction begins with the first write, so a request that only reads or is refused holds nothing. From then on
//! reads see what was written. Tasks that are spawned within the scope are outside of it, and a unit must never wait for
//! one that writes: on SQLite it holds the only writer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use sqlx::PgConnection;
use sqlx::sqlite::SqliteConnection;
use tokio::sync::{Mutex, OwnedMutexGuard};
use uuid::Uuid;

use crate::access::{self, AuditRow, KeptAnswer};
use crate::db::{Db, Store, Tx, within};
use crate::error::{Error, Result};
use crate::postgres::transaction::PgTx;
use crate::sqlite::SqliteTx;

tokio::task_local! {
    static CURRENT: Arc<Inner>;
}

/// Where everything of the request can be undone, keeping the claim of its key.
const BASE: &str = "request_base";
/// Where the unit that is under way can be undone.
pub(crate) const STEP: &str = "request_step";

/// The key under which a request is made once.
#[derive(Debug, Clone)]
pub struct RequestKey {
    /// Whose key it is.
    pub actor: String,
    pub key: String,
    /// What the request is: another one under the same key is refused.
    pub hash: [u8; 32],
    pub claim: Uuid,
    pub at: Micros,
}

/// What a request leaves besides what it did.
#[derive(Debug, Default)]
pub struct Record {
    /// Kept under the key of the request.
    pub answer: Option<KeptAnswer>,
    pub audit: Option<AuditRow>,
}

/// The transaction of one request. Dropped before its end, everything is undone.
#[derive(Debug)]
pub struct Unit(Arc<Inner>);

struct Inner {
    store: Store,
    key: Option<RequestKey>,
    slot: Arc<Mutex<Slot>>,
    /// Set once the transaction is open, so that reads need not ask the slot.
    is_open: AtomicBool,
    key_is_taken: AtomicBool,
    effects: Lock<Vec<Box<dyn FnOnce() + Send>>>,
}

/// The transaction, while it is not in use.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    tx: Option<Tx>,
    /// A unit did not come to its end: it is undone before anything else happens.
    is_dirty: bool,
}

/// The transaction of the request, lent to one unit.
#[derive(Debug)]
pub(crate) struct Joined(OwnedMutexGuard<Slot>);

impl std::fmt::Debug for Inner {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Unit").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Runs something after the commit of the unit that this is part of; at once where there is none.
pub fn after_commit(effect: impl FnOnce() + Send + 'static) {
    match CURRENT.try_with(Arc::clone) {
        Ok(unit) => unit.effects.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(effect)),
        Err(_) => effect(),
    }
}

/// Whether this is part of a request's unit: what is written here is committed with the request.
pub fn is_within_unit() -> bool {
    CURRENT.try_with(|_| ()).is_ok()
}

/// Whether what is read here may never come to exist: the unit that this is part of has written, and is not committed.
pub fn sees_uncommitted() -> bool {
    CURRENT.try_with(|unit| unit.is_open.load(Ordering::Acquire)).unwrap_or(false)
}

impl Store {
    /// The unit of a request. Nothing is held before its first write.
    pub fn unit(&self, key: Option<RequestKey>) -> Unit {
        Unit(Arc::new(Inner {
            store: self.clone(),
            key,
            slot: Arc::default(),
            is_open: AtomicBool::new(false),
            key_is_taken: AtomicBool::new(false),
            effects: Lock::default(),
        }))
    }
}

#[boxed]
impl Unit {
    /// Does the work of the request: whatever it writes belongs to this unit.
    pub async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(Arc::clone(&self.0), work).await
    }

    /// Whether another request was made under the key; then nothing was done.
    pub fn key_is_taken(&self) -> bool {
        self.0.key_is_taken.load(Ordering::Acquire)
    }

    /// Makes everything true at once: the work, the answer and the audit row.
    /// Says whether there was any work.
    pub async fn commit(self, record: Record) -> Result<bool> {
        let has_worked = self.0.is_open.load(Ordering::Acquire);
        self.end(&record, true).await?;
        self.0.run_effects();
        Ok(has_worked)
    }

    /// Undoes the work and keeps the record of it.
    pub async fn refuse(self, record: Record) -> Result<()> {
        self.end(&record, false).await
    }

    async fn end(&self, record: &Record, keeps_work: bool) -> Result<()> {
        let is_open = self.0.is_open.load(Ordering::Acquire);
        let has_something = record.answer.is_some() || record.audit.is_some();
        if !is_open && !has_something {
            return Ok(());
        }
        let mut slot = self.0.open().await?.0;
        slot.clean().await?;
        let tx = slot.tx.as_mut().ok_or_else(Inner::lost)?;
        if !keeps_work && is_open {
            savepoint(tx, "ROLLBACK TO SAVEPOINT", BASE).await?;
        }
        if let (Some(answer), Some(key)) = (&record.answer, &self.0.key) {
            access::keep_answer_within(tx, (&key.actor, &key.key), key.claim, answer).await?;
        }
        if let Some(row) = &record.audit {
            access::add_audit_within(tx, row).await?;
        }
        slot.tx.take().ok_or_else(Inner::lost)?.commit().await
    }
}

impl Inner {
    fn lost() -> Error {
        Error::Conflict("the transaction of this request is gone".into())
    }

    fn run_effects(&self) {
        let effects = std::mem::take(&mut *self.effects.lock().unwrap_or_else(PoisonError::into_inner));
        effects.into_iter().for_each(|effect| effect());
    }

    /// The slot with an open transaction in it.
    async fn open(&self) -> Result<Joined> {
        let mut slot = Arc::clone(&self.slot).lock_owned().await;
        if slot.tx.is_some() {
            return Ok(Joined(slot));
        }
        if self.is_open.load(Ordering::Acquire) {
            return Err(Self::lost());
        }
        let mut tx = match &*self.store.db {
            Db::Postgres(pg) => Tx::Postgres(PgTx::begin(&pg.pool).await?),
            Db::Sqlite(sqlite) => Tx::Sqlite(sqlite.begin().await?),
        };
        if let Some(key) = &self.key
            && !claim(&mut tx, key).await?
        {
            self.key_is_taken.store(true, Ordering::Release);
            return Err(Error::KeyTaken);
        }
        savepoint(&mut tx, "SAVEPOINT", BASE).await?;
        slot.tx = Some(tx);
        self.is_open.store(true, Ordering::Release);
        Ok(Joined(slot))
    }
}

/// Waits for a request under the same key that is under way; false if it has ended.
async fn claim(tx: &mut Tx, key: &RequestKey) -> Result<bool> {
    let claimed = within!(
        tx,
        sqlx::query(
            "INSERT INTO idempotent_requests (actor, key, request_hash, claim, created_at) \
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (actor, key) DO NOTHING"
        )
        .bind(&key.actor)
        .bind(&key.key)
        .bind(key.hash.to_vec())
        .bind(key.claim)
        .bind(key.at)
    );
    Ok(claimed > 0)
}

pub(crate) async fn savepoint(tx: &mut Tx, what: &str, name: &str) -> Result<()> {
    let sql = sqlx::AssertSqlSafe(format!("{what} {name}"));
    within!(tx, |conn| sqlx::raw_sql(sql).execute(conn).await.map(drop)?);
    Ok(())
}

impl Slot {
    /// Undoes what a unit left half-way.
    async fn clean(&mut self) -> Result<()> {
        if self.is_dirty {
            let tx = self.tx.as_mut().ok_or_else(Inner::lost)?;
            savepoint(tx, "ROLLBACK TO SAVEPOINT", STEP).await?;
            self.is_dirty = false;
        }
        Ok(())
    }
}

impl Joined {
    /// Joins the unit of the request that this is part of, if there is one on this database, with a step of its own.
    pub(crate) async fn step(store: &Store) -> Result<Option<Self>> {
        let Some(unit) = current(store) else { return Ok(None) };
        let mut joined = unit.open().await?;
        joined.0.clean().await?;
        let tx = joined.0.tx.as_mut().ok_or_else(Inner::lost)?;
        savepoint(tx, "SAVEPOINT", STEP).await?;
        // Until it says that it is done.
        joined.0.is_dirty = true;
        Ok(Some(joined))
    }

    /// For reading what the request has written so far, if it has written anything.
    pub(crate) async fn look(store: &Store) -> Result<Option<Self>> {
        let Some(unit) = current(store).filter(|unit| unit.is_open.load(Ordering::Acquire)) else { return Ok(None) };
        // A unit that reads besides its own transaction has to do it elsewhere, as it does without a request.
        let Ok(mut slot) = Arc::clone(&unit.slot).try_lock_owned() else { return Ok(None) };
        slot.clean().await?;
        Ok(slot.tx.is_some().then_some(Self(slot)))
    }

    /// The step has come to its end.
    pub(crate) fn done(&mut self) {
        self.0.is_dirty = false;
    }

    /// Lends the transaction to a unit, which gives it back when it is committed or dropped.
    pub(crate) fn lend(mut self) -> Result<Tx> {
        match self.0.tx.take().ok_or_else(Inner::lost)? {
            Tx::Postgres(tx) => Ok(Tx::Postgres(tx.lent(self))),
            Tx::Sqlite(mut base) => {
                let guard = base.take_guard();
                self.0.tx = Some(Tx::Sqlite(base));
                Ok(Tx::Sqlite(SqliteTx::lent(guard, self)))
            }
        }
    }

    /// Takes the transaction back.
    pub(crate) fn give_back(&mut self, tx: PgTx) {
        self.0.tx = Some(Tx::Postgres(tx));
    }

    /// Where what a unit on SQLite has learnt goes.
    pub(crate) fn base(&mut self) -> Option<&mut SqliteTx> {
        match &mut self.0.tx {
            Some(Tx::Sqlite(tx)) => Some(tx),
            _ => None,
        }
    }

    pub(crate) fn postgres(&mut self) -> &mut PgConnection {
        match &mut self.0.tx {
            Some(Tx::Postgres(tx)) => &mut *tx,
            _ => unreachable!("a unit on PostgreSQL has its transaction"),
        }
    }

    pub(crate) async fn sqlite(&mut self) -> Result<&mut SqliteConnection> {
        match &mut self.0.tx {
            Some(Tx::Sqlite(tx)) => tx.connection().await,
            _ => Err(Inner::lost()),
        }
    }
}

fn current(store: &Store) -> Option<Arc<Inner>> {
    CURRENT.try_with(Arc::clone).ok().filter(|unit| Arc::ptr_eq(&unit.store.db, &store.db))
}
