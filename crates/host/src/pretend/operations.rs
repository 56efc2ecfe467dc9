//! Nothing is started on a machine that is not there.

use model::id::OpId;

use super::Pretend;
use crate::operations::{Entered, Place};
use crate::{Operations, Result};

impl Operations for Pretend {
    fn hindrance(&self) -> Option<String> {
        None
    }

    fn enter(&self, _: OpId) -> Result<Entered> {
        Ok(Entered::nowhere())
    }

    fn place(&self, _: usize) -> Result<Place> {
        Ok(Place::nowhere())
    }
}
