//! A tool that is read while it runs.
//!
//! Whoever holds the value holds the tool: it is ended, with all of its session, when the value is dropped. Reading waits no
//! longer than is asked for, so that a reader can look at other things in between.

use super::{Command, Outcome, end_session, wait_for};
use crate::SysError;
use crate::child::{self, Child, Exit, Spec, Stream};
use crate::clock::since_boot;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use std::io;
use std::time::Duration;

/// What becomes of the standard error of a tool that is read while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    /// Nobody reads it.
    Dropped,
    /// It comes with the standard output, in the order in which the tool wrote.
    Merged,
}

/// Which life a running tool is tied to, beside that of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tied {
    /// The kernel kills it when the thread that started it ends, also when this process is killed (`PR_SET_PDEATHSIG`).
    ToThread,
    /// To nothing: its value may be read by another thread than the one that started it.
    Free,
}

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// So many bytes, at least one.
    Some(usize),
    /// Nothing in the time that was given.
    Quiet,
    /// There is no more.
    End,
}

/// A tool that runs. Its deadline is the caller's to keep.
#[derive(Debug)]
pub struct Running {
    child: Child,
    out: OwnedFd,
    reaped: bool,
}

impl Command {
    /// Starts it, with an empty standard input. Deadline, input and bound of output of the command are not used.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(self, errors: Errors, tied: Tied) -> Result<Running, SysError> {
        let err = |e: Errno| SysError::at("run", &self.program, e);
        if !self.program.is_absolute() {
            return Err(SysError::at("run", &self.program, io::Error::other("not an absolute path")));
        }
        let (out_r, out_w) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(err)?;
        rustix::io::ioctl_fionbio(&out_r, true).map_err(err)?;
        let err_w = match errors {
            Errors::Dropped => None,
            Errors::Merged => Some(out_w.try_clone().map_err(|e| SysError::at("run", &self.program, e))?),
        };
        // The spec wants owned streams; what is not there is /dev/null.
        let Spec { program, argv, env, cwd, umask, stdout, .. } = {
            let spare = || out_r.try_clone().map_err(|e| SysError::at("run", &self.program, e));
            self.spec(spare()?, out_w, spare()?)?
        };
        let spec = Spec {
            program,
            argv,
            env,
            cwd,
            umask,
            stdin: Stream::Null,
            stdout,
            stderr: err_w.map_or(Stream::Null, Stream::Fd),
            new_session: true,
            die_with_parent: tied == Tied::ToThread,
            pass: None,
        };
        let child = child::spawn(&spec, None)?;
        drop(spec);
        Ok(Running { child, out: out_r, reaped: false })
    }
}

impl Running {
    /// Reads what there is, waiting at most `patience` for the first byte.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&mut self, buffer: &mut [u8], patience: Duration) -> Result<Got, SysError> {
        let err = |e: Errno| SysError::new("read from a tool", e);
        let until = since_boot() + patience;
        loop {
            match rustix::io::read(&self.out, &mut *buffer) {
                Ok(0) => return Ok(Got::End),
                Ok(n) => return Ok(Got::Some(n)),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                Err(e) => return Err(err(e)),
            }
            let left = until.saturating_sub(since_boot());
            if left.is_zero() {
                return Ok(Got::Quiet);
            }
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut fds = [PollFd::new(&self.out, PollFlags::IN)];
            match poll(&mut fds, Some(&left)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(err(e)),
            }
        }
    }

    /// Waits until it has ended by itself, at most so long, and ends it else.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(mut self, patience: Duration) -> Result<Outcome, SysError> {
        let until = since_boot() + patience;
        let mut in_time = false;
        while !in_time {
            let left = until.saturating_sub(since_boot());
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut fds = [PollFd::from_borrowed_fd(self.child.pidfd(), PollFlags::IN)];
            match poll(&mut fds, Some(&left)) {
                Ok(0) => break,
                Ok(_) => in_time = true,
                Err(Errno::INTR) => {}
                Err(e) => return Err(SysError::new("wait for a tool", e)),
            }
        }
        end_session(&self.child, in_time);
        let exit = wait_for(&self.child);
        self.reaped = true;
        Ok(match (in_time, exit?) {
            (false, _) => Outcome::TimedOut,
            (true, Exit::Code(n)) => Outcome::Exited(n),
            (true, Exit::Signal(n)) => Outcome::Signaled(n),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            end_session(&self.child, false);
            // It was killed; nobody is there to tell that it could not be waited for.
            let _ = wait_for(&self.child);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs;

    fn bash(script: &str, errors: Errors) -> Running {
        Command::new("/bin/bash").arg("-c").arg(script).start(errors, Tied::ToThread).unwrap()
    }

    fn all(running: &mut Running) -> String {
        let mut text = Vec::new();
        let mut buffer = [0; 64];
        loop {
            match running.read(&mut buffer, Duration::from_secs(20)).unwrap() {
                Got::Some(n) => text.extend_from_slice(&buffer[..n]),
                Got::Quiet | Got::End => return String::from_utf8(text).unwrap(),
            }
        }
    }

    #[test]
    fn both_outputs_come_in_their_order_and_the_end_has_its_code() {
        let mut r = bash("echo a; echo b >&2; echo c; exit 3", Errors::Merged);
        assert_eq!(all(&mut r), "a\nb\nc\n");
        assert_eq!(r.finish(Duration::from_secs(20)).unwrap(), Outcome::Exited(3));
        let mut r = bash("echo a; echo b >&2; cat", Errors::Dropped);
        assert_eq!(all(&mut r), "a\n", "and it reads an end at once");
        assert_eq!(r.finish(Duration::from_secs(20)).unwrap(), Outcome::Exited(0));
    }

    #[test]
    fn a_quiet_tool_does_not_hold_its_reader() {
        let mut r = bash("sleep 60", Errors::Dropped);
        assert_eq!(r.read(&mut [0; 8], Duration::from_millis(20)).unwrap(), Got::Quiet);
        assert_eq!(r.finish(Duration::from_millis(20)).unwrap(), Outcome::TimedOut);
    }

    #[test]
    fn dropping_it_ends_the_tool_and_its_children() {
        let mut r = bash("sleep 60 & echo $! $$; wait", Errors::Dropped);
        let mut buffer = [0; 64];
        let Got::Some(n) = r.read(&mut buffer, Duration::from_secs(20)).unwrap() else { panic!("no output") };
        drop(r);
        let text = std::str::from_utf8(&buffer[..n]).unwrap();
        for pid in text.split_whitespace().map(|p| p.parse::<i32>().unwrap()) {
            let until = since_boot() + Duration::from_secs(20);
            while procfs::Stat::of(pid).is_some_and(|s| s.state != 'Z') {
                assert!(since_boot() < until, "{pid} lives");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    #[test]
    fn what_is_not_there_is_an_error_and_leaves_nothing() {
        let gone = Command::new("/nonexistent/tool").start(Errors::Merged, Tied::Free);
        assert!(gone.unwrap_err().is_missing());
        assert!(Command::new("bin/true").start(Errors::Merged, Tied::Free).is_err());
    }
}
