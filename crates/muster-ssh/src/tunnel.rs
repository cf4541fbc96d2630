//! A channel of a bastion as a byte stream for the next hop.
//!
//! The library's own channel stream stalls for ever under load in both directions: a session that is
//! stuck in a write does not read, and the bastion's session, whose channel then fills up, is stuck
//! too and takes no writes. Here a task pumps each way through a buffer, so that a session's write is
//! not held up by what it has not read yet. The buffer is bounded, and grows only as it is used.

use std::sync::Arc;

use russh::client::Msg;
use russh::{Channel, ChannelMsg};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use crate::link::Link;

/// OpenSSH lets 2 MiB be under way on a channel: a session can have no more than that to write, and
/// some, before it hears from its host.
const BUFFER: usize = 4 << 20;
const CHUNK: usize = 32 * 1024;

/// Asks the bastion to connect on. The answer may be a long time coming; dropping this future leaves
/// no channel behind.
pub(crate) async fn open_direct(
    outer: &Arc<Link>,
    host: &str,
    port: u16,
) -> Result<DuplexStream, russh::Error> {
    let (host, link) = (host.to_owned(), Arc::clone(outer));
    let channel = open_abandonable(outer, async move {
        link.handle.channel_open_direct_tcpip(host, u32::from(port), "127.0.0.1", 0).await
    })
    .await?;
    let (near, far) = duplex(BUFFER);
    tokio::spawn(pump(channel, far, Arc::clone(outer)));
    Ok(near)
}

/// Runs `open` to its end even when nobody waits for it any more, and then closes what it opened:
/// the library forgets a channel whose opening was abandoned, and the host would keep it.
pub(crate) async fn open_abandonable<F>(link: &Arc<Link>, open: F) -> Result<Channel<Msg>, russh::Error>
where
    F: Future<Output = Result<Channel<Msg>, russh::Error>> + Send + 'static,
{
    let (tx, rx) = tokio::sync::oneshot::channel();
    let link = Arc::clone(link);
    tokio::spawn(async move {
        let opened = open.await;
        if let Err(Ok(channel)) = tx.send(opened) {
            let _ = channel.close().await;
        }
        drop(link);
    });
    rx.await.unwrap_or(Err(russh::Error::Disconnect))
}

/// Until both directions are over. The link is held so that the bastion outlives what it carries.
async fn pump(channel: Channel<Msg>, stream: DuplexStream, link: Arc<Link>) {
    let (mut from_host, to_host) = channel.split();
    let (mut from_session, mut to_session) = tokio::io::split(stream);
    let up = async {
        let mut chunk = vec![0; CHUNK];
        loop {
            match from_session.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    let bytes = chunk.get(..n).unwrap_or_default().to_vec();
                    if to_host.data_bytes(bytes).await.is_err() {
                        break;
                    }
                }
            }
        }
    };
    let down = async {
        loop {
            match from_host.wait().await {
                Some(ChannelMsg::Data { data }) => {
                    if to_session.write_all(&data).await.is_err() {
                        break;
                    }
                }
                Some(ChannelMsg::Eof | ChannelMsg::Close) | None => break,
                Some(_) => {}
            }
        }
    };
    // An SSH session has no use for half a stream: the first end ends both.
    tokio::select! {
        () = up => {}
        () = down => {}
    }
    let _ = to_host.close().await;
    drop(link);
}
