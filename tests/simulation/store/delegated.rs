//! The traits of the store in which no bug is planted: each call goes to the real store, after the points and the
//! faults of its connection. It must not record leases.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use taskbridge_core::sessions::{DeliveredQuestion, Deliveries, Delivery, DeliveryChange};
use taskbridge_core::tasks::history::HistoryEntry;
use taskbridge_core::tasks::notices::Notice;
use taskbridge_core::tasks::pace::usual::UsualDuration;
use taskbridge_core::tasks::store::{
    Counts, Durations, Facts, Hint, Hints, History, Holder, Keys, LeasedNotice, Notices, ReceiverFilter,
    Result, RowCounts, Time,
};
use taskbridge_core::tasks::task::TaskId;
use taskbridge_sdk::Timestamp;

use super::PointedStore;

/// The checks read pending notices from outside at the end.
#[async_trait]
impl Notices for PointedStore {
    async fn take_notices(
        &self,
        receiver: &str,
        holder: &Holder,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<LeasedNotice>> {
        self.inner.take_notices(receiver, holder, lease, limit).await
    }

    async fn ack_notice(&self, notice: &Notice) -> Result<()> {
        self.inner.ack_notice(notice).await
    }

    async fn retry_notice_later(&self, notice: &Notice, holder: &Holder, pause: Duration) -> Result<()> {
        self.inner.retry_notice_later(notice, holder, pause).await
    }

    async fn delete_notices(&self, selection: ReceiverFilter<'_>, before: Timestamp) -> Result<usize> {
        self.inner.delete_notices(selection, before).await
    }
}

#[async_trait]
impl History for PointedStore {
    async fn entries(&self, id: &TaskId) -> Result<Vec<HistoryEntry>> {
        let _connection = self.before_read().await?;
        self.inner.entries(id).await
    }

    async fn delete_entries(&self, before: Timestamp, limit: usize) -> Result<usize> {
        self.before_write().await?;
        self.inner.delete_entries(before, limit).await
    }
}

#[async_trait]
impl Deliveries for PointedStore {
    async fn deliveries(&self, task: &TaskId) -> Result<BTreeMap<String, Delivery>> {
        let _connection = self.before_read().await?;
        self.inner.deliveries(task).await
    }

    async fn change_delivery(
        &self,
        question: &DeliveredQuestion,
        change: DeliveryChange,
    ) -> Result<Option<Delivery>> {
        self.before_write().await?;
        let changed = self.inner.change_delivery(question, change).await;
        self.after_write(changed).await
    }
}

#[async_trait]
impl Durations for PointedStore {
    async fn record_duration(&self, tool: &str, duration: Duration) -> Result<()> {
        self.before_write().await?;
        self.inner.record_duration(tool, duration).await
    }

    async fn usual_duration(&self, tool: &str) -> Result<Option<UsualDuration>> {
        let _connection = self.before_read().await?;
        self.inner.usual_duration(tool).await
    }
}

#[async_trait]
impl Keys for PointedStore {
    async fn seal_key(&self, new_key: [u8; 32]) -> Result<[u8; 32]> {
        self.inner.seal_key(new_key).await
    }
}

#[async_trait]
impl Time for PointedStore {
    async fn now(&self) -> Result<Timestamp> {
        let _connection = self.before_read().await?;
        self.inner.now().await
    }

    async fn shorten_leases(&self, longest: Duration) -> Result<()> {
        self.inner.shorten_leases(longest).await
    }
}

#[async_trait]
impl Facts for PointedStore {
    async fn fact(&self, name: &str) -> Result<Option<String>> {
        self.inner.fact(name).await
    }

    async fn set_fact(&self, name: &str, value: &str) -> Result<()> {
        self.inner.set_fact(name, value).await
    }

    async fn replace_fact(&self, name: &str, expected: Option<&str>, value: &str) -> Result<bool> {
        self.inner.replace_fact(name, expected, value).await
    }
}

#[async_trait]
impl RowCounts for PointedStore {
    async fn row_counts(&self) -> Result<Counts> {
        let _connection = self.before_read().await?;
        self.inner.row_counts().await
    }
}

#[async_trait]
impl Hints for PointedStore {
    fn is_shared(&self) -> bool {
        true
    }

    async fn changed_elsewhere(&self) -> Vec<Hint> {
        self.hints.next().await
    }
}
