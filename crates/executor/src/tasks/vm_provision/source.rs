//! Where the image of a slice may come from: out of the operators' signed catalogue, or a file of the host's own that
//! the task trusts. Decided before anything is touched, by what this node has and not by what anybody says.

use std::sync::Arc;
use std::time::Instant;

use host::Image;
use model::catalogue::Catalogue;
use model::node_api::Progress;
use model::signal::Code;
use model::socket::WantedImage;
use model::task::vm_provision::{self, Params};
use steps::Fail;

use crate::errands::{Errands, Failed, Fetched};
use crate::tasks::{fail, failed};

/// What a task can know of images besides what it names.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) catalogue: Option<Arc<Catalogue>>,
    /// Hosts that local policy lets images come from, besides the control plane.
    pub(crate) hosts: Vec<String>,
    pub(crate) errands: Arc<Errands>,
    /// Why the task should not wait any longer.
    pub(crate) over: Arc<dyn Fn() -> Option<Code> + Send + Sync>,
    /// Hears how much of an image has come.
    pub(crate) moved: Arc<dyn Fn(Progress) + Send + Sync>,
    pub(crate) deadline: Instant,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            catalogue: None,
            hosts: Vec::new(),
            errands: Arc::default(),
            over: Arc::new(|| None),
            moved: Arc::new(|_| {}),
            deadline: Instant::now(),
        }
    }
}

impl Sources {
    fn lists(&self, params: &Params) -> bool {
        let catalogue = self.catalogue.as_deref();
        catalogue.is_some_and(|catalogue| catalogue.lists(params).is_some())
    }

    pub(super) fn image(&self, params: &Params) -> Image {
        Image {
            name: params.image_path.clone(),
            sha256: params.image_sha256,
            size_bytes: params.image_size_bytes,
            format: params.image_format,
            trusted: params.image_trusted,
            listed: self.lists(params),
        }
    }

    pub(super) fn check(&self, params: &Params) -> Result<(), Fail> {
        if !self.lists(params) && !params.image_trusted {
            let (name, sha256) = (&params.image_path, params.image_sha256);
            let version = self.catalogue.as_ref().map_or(0, |catalogue| catalogue.version);
            let why = format!("catalogue {version} does not list {name} with digest {sha256}, this size and format");
            return Err(fail(Code::ImageNotListed, why));
        }
        match &params.image_url {
            Some(url) if !self.allows(url) => {
                let host = vm_provision::https_host(url).unwrap_or_default();
                let why = format!("image_url: local policy does not name {host} in image_hosts");
                Err(fail(Code::ImageSourceRefused, why))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn allows(&self, url: &str) -> bool {
        let host = vm_provision::https_host(url);
        host.is_some_and(|host| self.hosts.iter().any(|allowed| allowed == host))
    }

    /// Into the store: from there, from a directory of the host's own, or by the agent.
    pub(super) fn store(&self, images: &dyn host::Images, params: &Params) -> Result<(), Fail> {
        let image = self.image(params);
        let mut second_try = false;
        loop {
            match images.ensure_stored(&image) {
                Ok(_) => return Ok(()),
                Err(error) if error.code() == Code::ImageUnavailable && image.listed => {}
                Err(error) => return Err(failed(error)),
            }
            let wanted = WantedImage {
                sha256: image.sha256,
                size_bytes: image.size_bytes,
                url: params.image_url.clone(),
                hosts: self.hosts.clone(),
            };
            match self.errands.fetch(&wanted, &|| self.over(), &*self.moved) {
                Ok(Fetched::ByAnother) => {}
                Ok(Fetched::Bytes(bytes, _settles)) => match images.adopt(&image, bytes) {
                    Ok(()) => return Ok(()),
                    // What the agent had kept of an earlier try may have been torn: once more, from its beginning.
                    Err(error) if error.code() == Code::ImageDigestMismatch && !second_try => second_try = true,
                    Err(error) => return Err(failed(error)),
                },
                Err(Failed { code, detail }) => return Err(fail(code, detail)),
            }
        }
    }

    fn over(&self) -> Option<Failed> {
        let late = || (Instant::now() >= self.deadline).then_some(Code::RuntimeExceeded);
        let code = (self.over)().or_else(late)?;
        let detail = code.meaning().to_owned();
        Some(Failed { code, detail })
    }
}
