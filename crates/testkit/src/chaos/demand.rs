//! What clients want meanwhile: they submit, cancel, pause, resume and reopen, as far as the quota allows.

use mainspring_core::RunId;
use tokio::sync::watch;

use super::{Storm, work_done};
use crate::audit::{Evidence, Paused};
use crate::customer::Customer;
use crate::wait::until_nothing_moves;
use crate::workload::{Order, Workload};

/// Orders whose runs something is still to be done with.
#[derive(Default)]
struct Plans {
    cancel: Vec<(Order, RunId)>,
    pause: Vec<(Order, RunId)>,
    resume: Vec<Paused>,
    reopen: Vec<(Order, RunId)>,
}

pub(crate) struct Demand {
    storm: Storm,
    /// The database without anything in between.
    url: String,
    customer: Customer,
    rng: fastrand::Rng,
    evidence: Evidence,
    plans: Plans,
}

impl Demand {
    pub(crate) fn new(storm: &Storm, url: &str, customer: Customer) -> Self {
        let rng = fastrand::Rng::with_seed(storm.seed ^ 0x9e37_79b9);
        let (storm, url) = (storm.clone(), url.to_owned());
        Self { storm, url, customer, rng, evidence: Evidence::default(), plans: Plans::default() }
    }

    /// Goes on until everything was submitted and everything asked for was acknowledged. Also returns how many answers
    /// got lost.
    pub(crate) async fn make(
        mut self,
        workload: Workload,
        mut quota: watch::Receiver<usize>,
    ) -> anyhow::Result<(Evidence, usize)> {
        for number in 0..self.storm.runs {
            // The quota may be used up.
            if quota.wait_for(|allowed| *allowed > number).await.is_err() {
                break;
            }
            let order = workload.draw(&mut self.rng, number);
            let acknowledged = self.customer.submit(&order).await?;
            let run = acknowledged.run;
            self.evidence.acknowledged.push(acknowledged);
            if order.cancel {
                self.plans.cancel.push((order.clone(), run));
            }
            if order.pause {
                self.plans.pause.push((order.clone(), run));
            }
            if order.reopen {
                self.plans.reopen.push((order, run));
            }
            self.interfere().await?;
        }
        self.settle().await?;
        Ok((self.evidence, self.customer.unknown))
    }

    /// Some things happen at once, some when the run has been running for a while.
    async fn interfere(&mut self) -> anyhow::Result<()> {
        if let Some((order, run)) = take_some(&mut self.rng, &mut self.plans.cancel) {
            self.evidence.cancelled.push(self.customer.cancel(&order, run).await?);
        }
        if let Some((_, run)) = take_some(&mut self.rng, &mut self.plans.pause) {
            self.plans.resume.extend(self.customer.pause(run).await?);
        }
        if let Some(paused) = take_some(&mut self.rng, &mut self.plans.resume) {
            self.evidence.paused.push(self.customer.resume(paused).await?);
        }
        if let Some((order, run)) = take_some(&mut self.rng, &mut self.plans.reopen)
            && !self.reopen(&order, run).await?
        {
            self.plans.reopen.push((order, run));
        }
        Ok(())
    }

    /// Does what is left of the plans.
    async fn settle(&mut self) -> anyhow::Result<()> {
        for (order, run) in std::mem::take(&mut self.plans.cancel) {
            self.evidence.cancelled.push(self.customer.cancel(&order, run).await?);
        }
        for paused in std::mem::take(&mut self.plans.resume) {
            self.evidence.paused.push(self.customer.resume(paused).await?);
        }
        for (order, run) in std::mem::take(&mut self.plans.reopen) {
            let (patience, url) = (self.storm.patience, self.url.clone());
            let look = async || Ok(self.reopen(&order, run).await?.then_some(()));
            until_nothing_moves("a run to reopen ends", patience, async || work_done(&url).await, look).await?;
        }
        Ok(())
    }

    /// False: the run has not ended yet.
    async fn reopen(&mut self, order: &Order, run: RunId) -> anyhow::Result<bool> {
        let Some(ended) = self.customer.ended(run).await? else { return Ok(false) };
        if let Some(reopened) = self.customer.reopen(order, run, &ended).await? {
            // What a cancel stopped may begin again from now on.
            let attempts = reopened.attempts.clone();
            // It may have ended while it was paused; it is not any more.
            for paused in self.plans.resume.extract_if(.., |paused| paused.run == run) {
                self.evidence.paused.push(Paused { after: attempts.clone(), ..paused });
            }
            for cancelled in self.evidence.cancelled.iter_mut().filter(|cancelled| cancelled.run == run) {
                cancelled.until = Some(attempts.clone());
            }
            self.evidence.reopened.push(reopened);
        }
        Ok(true)
    }
}

/// Sometimes one of them.
fn take_some<T>(rng: &mut fastrand::Rng, from: &mut Vec<T>) -> Option<T> {
    (!from.is_empty() && rng.u8(..3) == 0).then(|| from.swap_remove(rng.usize(..from.len())))
}
