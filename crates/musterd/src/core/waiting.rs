//! What the core says to root on the machine while it has no owner to speak of yet: it may wait for one for an hour.

use std::io;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::control;

/// Between two looks at whether somebody asks.
const LOOKS: Duration = Duration::from_millis(100);

/// What is waited for. Of the process, as what the service manager is told is.
static WHY: Mutex<String> = Mutex::new(String::new());

/// Says what is waited for from now on.
pub(super) fn tell(why: &str) {
    why.clone_into(&mut WHY.lock().unwrap_or_else(PoisonError::into_inner));
    muster_sys::service::tell(&format!("STATUS={why}"));
}

/// Does `work`, and meanwhile answers whoever asks at the control socket with what it waits for.
pub(super) fn during<T>(listener: &UnixListener, work: impl FnOnce() -> T) -> io::Result<T> {
    listener.set_nonblocking(true)?;
    let out = std::thread::scope(|scope| {
        let (ends, ended) = channel::<()>();
        let asked = move || answers(listener, &ended);
        std::thread::Builder::new().name("waiting".to_owned()).spawn_scoped(scope, asked)?;
        let out = work();
        drop(ends);
        Ok::<_, io::Error>(out)
    })?;
    listener.set_nonblocking(false)?;
    Ok(out)
}

fn answers(listener: &UnixListener, ended: &Receiver<()>) {
    loop {
        match ended.recv_timeout(LOOKS) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return,
        }
        while let Ok((stream, _)) = listener.accept() {
            let why = WHY.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let why = if why.is_empty() { "the core is starting".to_owned() } else { why };
            control::refuse(&stream, &why);
        }
    }
}
