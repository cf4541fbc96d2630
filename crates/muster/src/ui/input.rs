//! What is typed: bytes of the terminal into keys, resizes left to SIGWINCH.
//!
//! Read here and not by crossterm, whose reader waits for edges: a key that comes together with a resize stays unread until the next
//! one, and a terminal that is gone is read for ever. Sequences are those of ECMA-48, 5.4 (CSI) and of xterm's "PC-Style Function Keys" and
//! bracketed paste (ctlseqs); what is not known is passed over whole. A sequence that is cut is waited for a moment, so that
//! Esc on a slow line is told from an arrow.

use super::keys::Key;
use super::model::Event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use std::io::stdin;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Longest sequence that is waited for, and most of a pasted text that is kept.
const LONGEST: usize = 64;
const MOST: usize = 4096;
/// How long the rest of a sequence may take.
const REST: Duration = Duration::from_millis(50);

/// Reads the terminal on a thread of its own, until it is gone.
pub(super) fn inputs() -> mpsc::Receiver<Event> {
    let (to, from) = mpsc::channel(256);
    let named = std::thread::Builder::new().name("typed".to_owned());
    // Where there is no thread, the channel ends at once, as when the terminal is gone.
    let _ = named.spawn(move || {
        let (mut bytes, mut reader, input) = ([0u8; 1024], Reader::default(), stdin());
        loop {
            let cut = reader.waits()
                && !more_comes(|left| poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(left)));
            let events = match cut {
                true => reader.cut(),
                false => match read(&input, &mut bytes) {
                    Ok(0) => return,
                    Ok(n) => reader.push(bytes.get(..n).unwrap_or_default()),
                    Err(Errno::INTR) => continue,
                    Err(_) => return,
                },
            };
            for event in events {
                if to.blocking_send(event).is_err() {
                    return;
                }
            }
        }
    });
    from
}

/// Whether there is more to read before the rest of a sequence is due. A signal that comes meanwhile is no answer: where it was taken for
/// one, an Esc would wait for the next key, and become a part of it.
fn more_comes(mut poll: impl FnMut(&Timespec) -> Result<usize, Errno>) -> bool {
    let due = Instant::now() + REST;
    loop {
        let left = due.saturating_duration_since(Instant::now());
        // Less than a second.
        let left = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        match poll(&left) {
            Ok(0) => return false,
            Err(Errno::INTR) => {}
            // What is wrong with the terminal is told by reading it.
            _ => return true,
        }
    }
}

/// Makes keys of bytes, however they come.
#[derive(Debug, Default)]
struct Reader {
    bytes: Vec<u8>,
    pasted: Option<Vec<u8>>,
}

/// What stands at the beginning of bytes.
enum Step {
    /// So many bytes, and what they are.
    Took(usize, Option<Key>),
    /// So many bytes that begin pasted text.
    Paste(usize),
    /// More must come.
    Cut,
}

impl Reader {
    /// More bytes.
    fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.bytes.extend_from_slice(bytes);
        let mut events = Vec::new();
        while !self.bytes.is_empty() {
            if self.pasted.is_some() {
                match self.paste() {
                    Some(event) => events.push(event),
                    None => break,
                }
                continue;
            }
            match step(&self.bytes) {
                Step::Took(n, key) => {
                    self.bytes.drain(..n);
                    events.extend(key.map(Event::Key));
                }
                Step::Paste(n) => {
                    self.bytes.drain(..n);
                    self.pasted = Some(Vec::new());
                }
                Step::Cut => break,
            }
        }
        events
    }

    /// Whether the rest of a sequence is waited for. Pasted text has an end of its own.
    fn waits(&self) -> bool {
        self.pasted.is_none() && !self.bytes.is_empty()
    }

    /// The rest does not come: an ESC alone is the key, anything else is nothing.
    fn cut(&mut self) -> Vec<Event> {
        let alone = self.bytes == [ESC];
        self.bytes.clear();
        if alone { vec![Event::Key(Key::Esc)] } else { Vec::new() }
    }

    /// Takes pasted text up to its end, and gives it when that is there.
    fn paste(&mut self) -> Option<Event> {
        const END: &[u8] = b"\x1b[201~";
        let end = self.bytes.windows(END.len()).position(|w| w == END);
        // What may be the beginning of the end is left.
        let text = end.unwrap_or_else(|| self.bytes.len().saturating_sub(END.len() - 1));
        let pasted = self.pasted.get_or_insert_default();
        let room = MOST.saturating_sub(pasted.len());
        pasted.extend(self.bytes.drain(..text).take(room));
        end?;
        self.bytes.drain(..END.len());
        let text = self.pasted.take().unwrap_or_default();
        Some(Event::Paste(String::from_utf8_lossy(&text).into_owned()))
    }
}

const ESC: u8 = 0x1b;

fn step(bytes: &[u8]) -> Step {
    match bytes {
        [ESC] => Step::Cut,
        [ESC, b'[', rest @ ..] => csi(rest),
        [ESC, b'O'] => Step::Cut,
        [ESC, b'O', letter, ..] => Step::Took(3, named(*letter)),
        // Twice is once, and the second one may begin something.
        [ESC, ESC, ..] => Step::Took(1, Some(Key::Esc)),
        // With Alt held; no key of ours.
        [ESC, rest @ ..] => match letter(rest) {
            Step::Took(n, _) => Step::Took(n + 1, None),
            other => other,
        },
        rest => letter(rest),
    }
}

fn csi(rest: &[u8]) -> Step {
    let middle = rest.iter().take_while(|b| (0x20..0x40).contains(*b)).count();
    let Some(end) = rest.get(middle) else {
        return if middle < LONGEST { Step::Cut } else { Step::Took(middle + 2, None) };
    };
    let first = rest.get(..middle).unwrap_or_default().split(|b| *b == b';').next().unwrap_or_default();
    // What ends nothing begins something else.
    if !(0x40..0x7f).contains(end) {
        return Step::Took(middle + 2, None);
    }
    let key = match (end, first) {
        (b'~', b"200") => return Step::Paste(middle + 3),
        (b'~', b"1" | b"7") => Some(Key::Home),
        (b'~', b"4" | b"8") => Some(Key::End),
        (b'~', b"5") => Some(Key::PageUp),
        (b'~', b"6") => Some(Key::PageDown),
        (b'Z', _) => Some(Key::BackTab),
        (letter, b"" | b"1") => named(*letter),
        _ => None,
    };
    Step::Took(middle + 3, key)
}

const fn named(letter: u8) -> Option<Key> {
    Some(match letter {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        _ => return None,
    })
}

fn letter(bytes: &[u8]) -> Step {
    let Some(first) = bytes.first() else { return Step::Cut };
    match first {
        b'\r' | b'\n' => Step::Took(1, Some(Key::Enter)),
        b'\t' => Step::Took(1, Some(Key::Tab)),
        0x7f | 0x08 => Step::Took(1, Some(Key::Backspace)),
        1..=26 => Step::Took(1, Some(Key::Ctrl(char::from(first + b'a' - 1)))),
        0..=0x1f => Step::Took(1, None),
        0x20..=0x7e => Step::Took(1, Some(Key::Char(char::from(*first)))),
        _ => {
            let len = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => return Step::Took(1, None),
            };
            match (bytes.get(..len).map(core::str::from_utf8), bytes) {
                (Some(Ok(text)), _) => {
                    Step::Took(len, text.chars().next().filter(|c| !c.is_control()).map(Key::Char))
                }
                (Some(Err(_)), _) => Step::Took(1, None),
                (None, [_, rest @ ..]) if rest.iter().all(|b| b & 0xc0 == 0x80) => Step::Cut,
                (None, _) => Step::Took(1, None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(pieces: &[&[u8]]) -> String {
        let mut reader = Reader::default();
        let mut events: Vec<Event> = pieces.iter().flat_map(|p| reader.push(p)).collect();
        if reader.waits() {
            events.extend(reader.cut());
        }
        format!("{events:?}")
    }

    #[test]
    fn keys_are_told_apart() {
        for (bytes, want) in [
            (&b"q"[..], "[Key(Char('q'))]"),
            (b"\x1b", "[Key(Esc)]"),
            (b"\x1b\x1b", "[Key(Esc), Key(Esc)]"),
            (b"\x1b\x1b[A", "[Key(Esc), Key(Up)]"),
            (b"\x1b[A\x1b[B\x1b[C\x1b[D", "[Key(Up), Key(Down), Key(Right), Key(Left)]"),
            (b"\x1bOA\x1bOH\x1bOF", "[Key(Up), Key(Home), Key(End)]"),
            (b"\x1b[1;5A", "[Key(Up)]"),
            (
                b"\x1b[H\x1b[4~\x1b[5~\x1b[6~\x1b[Z",
                "[Key(Home), Key(End), Key(PageUp), Key(PageDown), Key(BackTab)]",
            ),
            (b"\r\n\t\x7f\x08", "[Key(Enter), Key(Enter), Key(Tab), Key(Backspace), Key(Backspace)]"),
            (b"\x03\x1a\x06", "[Key(Ctrl('c')), Key(Ctrl('z')), Key(Ctrl('f'))]"),
            ("é日".as_bytes(), "[Key(Char('é')), Key(Char('日'))]"),
            // Alt, function keys, reports of the mouse and of the cursor: nothing of ours.
            (b"\x1bq\x1b[15~\x1b[<0;1;1M\x1b[24;80R\x1bOPx", "[Key(Char('x'))]"),
            (b"\xff\xc3(\x00\x1cx", "[Key(Char('(')), Key(Char('x'))]"),
            (b"\x1b[200~B\r\x1b[A\x1b[201~x", "[Paste(\"B\\r\\u{1b}[A\"), Key(Char('x'))]"),
            (b"\x1b[20", "[]"),
        ] {
            assert_eq!(all(&[bytes]), want, "{bytes:?}");
        }
    }

    #[test]
    fn a_signal_is_no_answer_to_whether_more_is_typed() {
        let mut answers = vec![Ok(0), Err(Errno::INTR), Err(Errno::INTR)];
        assert!(!more_comes(|_| answers.pop().unwrap()));
        let mut answers = vec![Ok(1), Err(Errno::INTR)];
        assert!(more_comes(|_| answers.pop().unwrap()));
        // Signals without end do not make it longer.
        let mut shortest = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let ended = more_comes(|left| {
            assert!(left.tv_nsec <= shortest.tv_nsec && left.tv_sec == 0);
            shortest = *left;
            if left.tv_nsec == 0 { Ok(0) } else { Err(Errno::INTR) }
        });
        assert!(!ended);
    }

    #[test]
    fn a_pasted_text_without_end_is_bounded() {
        let mut reader = Reader::default();
        assert!(reader.push(b"\x1b[200~").is_empty());
        for _ in 0..100 {
            assert!(reader.push(&[b'x'; 1024]).is_empty());
        }
        assert!(reader.bytes.len() < 8 && reader.pasted.as_ref().is_some_and(|p| p.len() == MOST));
        assert_eq!(format!("{:?}", reader.push(b"\x1b[201~q")).matches("Key(Char('q'))").count(), 1);
    }

    proptest! {
        #[test]
        fn how_bytes_come_changes_nothing_and_none_is_kept_for_ever(
            bytes in proptest::collection::vec(prop_oneof![Just(0x1bu8), Just(b'['), Just(b'~'), Just(b'2'), Just(b'0'), any::<u8>()], 0..200),
            cut in 0usize..200,
        ) {
            let cut = cut.min(bytes.len());
            prop_assert_eq!(all(&[&bytes[..cut], &bytes[cut..]]), all(&[&bytes]));
            let mut reader = Reader::default();
            reader.push(&bytes);
            prop_assert!(reader.pasted.is_some() || reader.bytes.len() <= LONGEST + 2);
        }
    }
}
