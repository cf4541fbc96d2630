//! The terminal while the dashboard has it: raw, on its other screen, and given back however the program ends: by return, by a panic
//! of any thread, by a signal, and for as long as the shell has it after Ctrl-Z or SIGTSTP.
//!
//! The sequences are those of xterm and of everything that follows it (DEC private modes 1049, 25 and 2004).

use ratatui::Terminal;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::ResetColor;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{Stdout, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// The terminal is ours. One process has one.
static OURS: AtomicBool = AtomicBool::new(false);

/// The terminal; given back when dropped.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal on standard input and output.
    ///
    /// # Errors
    /// It is none, or it cannot be written to. Then it is as it was.
    pub fn take() -> std::io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // First the terminal, so that what is said next can be read.
                give_back();
                before(panic);
            }));
        });
        enter()?;
        match Terminal::new(CrosstermBackend::new(stdout())) {
            Ok(terminal) => Ok(Self { terminal }),
            Err(e) => {
                give_back();
                Err(e)
            }
        }
    }

    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        self.terminal.size().map_or((80, 24), |s| (s.width, s.height))
    }

    /// Draws what is different.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn draw(&mut self, view: impl FnOnce(&mut ratatui::Frame<'_>)) -> std::io::Result<()> {
        self.terminal.draw(view).map(|_| ())
    }

    /// Lets the shell have the terminal, until it continues this process; at once where there is none. The whole job stops after a key, as
    /// the terminal does it when Ctrl-Z is not ours; this process alone, where somebody sent it the signal.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn suspend(&mut self, whole_job: bool) -> std::io::Result<()> {
        give_back();
        // Where it cannot be stopped it goes on, which is told by the screen that is there again.
        let _ = muster_sys::signals::stop(whole_job);
        self.again()
    }

    /// Takes it anew after somebody else had it.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn again(&mut self) -> std::io::Result<()> {
        give_back();
        enter()?;
        // What was drawn before is forgotten. Terminal::clear would ask the terminal where its cursor is, and its answer is typed text.
        self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        self.terminal.backend_mut().clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> std::io::Result<()> {
    enable_raw_mode()?;
    OURS.store(true, Ordering::SeqCst);
    let entered = execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste);
    if entered.is_err() {
        give_back();
    }
    entered
}

/// Gives it back if it is ours. What cannot be written to any more is nobody's loss.
fn give_back() {
    if OURS.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), DisableBracketedPaste, ResetColor, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
