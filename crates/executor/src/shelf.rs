//! Stored images are read ahead, beside everything else and behind it: whoever wants a slice then waits for no digest,
//! and an image that has rotted is found before somebody wants it.

use std::sync::Arc;
use std::time::Duration;

use host::Image;

use crate::node::Node;

/// What was stored just now is known at the second look.
const EVERY: Duration = Duration::from_secs(10);
/// As far behind as anything can be.
const LAST: i32 = 19;

/// Begins it beside everything else.
pub(crate) fn spawn(node: &Arc<Node>) -> std::io::Result<()> {
    let shared = Arc::clone(node);
    node.spawn("shelf", move || run(&shared))
}

fn run(node: &Node) {
    // Of this thread alone. Where that is refused, it is only less polite.
    rustix::process::setpriority_process(None, LAST).ok();
    let mut said = Vec::new();
    while !node.stop.wait(EVERY) {
        // The disk and the processors are theirs.
        if !node.running().is_empty() {
            continue;
        }
        let over = || node.stop.asked() || !node.running().is_empty();
        let (images, listed) = (&node.options.host.images, listed(node));
        // Without a catalogue nobody knows what is not wanted any more.
        match listed.as_deref().map(|listed| images.drop_unlisted(listed, &over)) {
            Some(Ok(gone)) => gone
                .iter()
                .for_each(|sha256| tracing::info!(%sha256, "a stored image that is not listed any more is taken out")),
            Some(Err(error)) => tracing::warn!(%error, "cannot look for stored images that are not listed any more"),
            None => {}
        }
        let wrong = match images.read_ahead(&listed.unwrap_or_default(), &over) {
            Ok(wrong) => wrong,
            Err(error) => vec![error],
        };
        let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        for error in wrong.iter().filter(|error| !said.contains(*error)) {
            tracing::error!(error, "a stored image is no good");
        }
        said = wrong;
    }
}

/// None if that is not known here.
fn listed(node: &Node) -> Option<Vec<Image>> {
    let store = node.trust();
    let catalogue = store.trust().and_then(|trust| node.catalogue().current(trust))?;
    let images = catalogue.images.into_iter().map(|listed| Image {
        name: listed.name,
        sha256: listed.sha256,
        size_bytes: listed.size_bytes,
        format: listed.format,
        trusted: false,
        listed: true,
    });
    Some(images.collect())
}
