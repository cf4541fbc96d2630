//! One host, one connection: opened when first needed, shared by everything that is done on the host, opened anew once it
//! was lost. Whether what ran on a lost one may be run again is for whoever ran it to decide.

use muster_ssh::{Client, ConnectError, Connection, Progress, Route};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Mutex;

/// A host as it is reached by one login.
pub struct Session {
    client: Arc<Client>,
    route: Route,
    user: String,
    open: Mutex<Option<Arc<Connection>>>,
    progress: Progress,
    sent: AtomicBool,
}

impl Session {
    /// Nothing is opened yet. `client` shares the connections to bastions.
    pub fn new(client: Arc<Client>, route: Route, user: &str) -> Self {
        Self {
            client,
            route,
            user: user.to_owned(),
            open: Mutex::new(None),
            progress: Progress::default(),
            sent: AtomicBool::new(false),
        }
    }

    /// The login.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The way there.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// The connection.
    pub async fn connection(&self) -> Result<Arc<Connection>, ConnectError> {
        let mut open = self.open.lock().await;
        if let Some(there) = open.as_ref().filter(|c| c.is_alive()) {
            return Ok(Arc::clone(there));
        }
        *open = None;
        let new = Arc::new(self.client.connect_watched(&self.route, &self.progress).await?);
        *open = Some(Arc::clone(&new));
        Ok(new)
    }

    /// How far [`Self::connection`] has come, for who did not wait for it.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Says whether something was sent on it that may have run. To be said before it is sent.
    pub fn set_sent(&self, sent: bool) {
        self.sent.store(sent, Ordering::SeqCst);
    }

    /// Whether anything may have run.
    pub fn sent(&self) -> bool {
        self.sent.load(Ordering::SeqCst)
    }

    /// A connection of its own, not shared: what proves that a login works *now*.
    pub async fn fresh(&self) -> Result<Connection, ConnectError> {
        self.client.connect(&self.route).await
    }

    /// Lets go of the connection, so that the next use opens a new one.
    pub async fn drop_connection(&self) {
        *self.open.lock().await = None;
    }

    /// Says goodbye.
    pub async fn close(&self) {
        let open = self.open.lock().await.take();
        // Somebody who still runs something on it closes it by dropping it.
        if let Some(Ok(connection)) = open.map(Arc::try_unwrap) {
            connection.close().await;
        }
    }
}
