//! Waits for work of the server and shows its progress.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Interval of requests for the progress.
const INTERVAL: Duration = Duration::from_millis(500);

/// Calls `read` until `show`, which updates the bar, returns `true`. The bar is on a terminal only.
pub(super) fn wait_for<T>(
    template: &str,
    mut read: impl FnMut() -> anyhow::Result<T>,
    show: impl Fn(&ProgressBar, &T) -> bool,
) -> anyhow::Result<T> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(template)?);
    loop {
        let found = read()?;
        if show(&bar, &found) {
            bar.finish_and_clear();
            return Ok(found);
        }
        std::thread::sleep(INTERVAL);
    }
}
