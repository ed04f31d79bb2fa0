//! placeholder
use super::*;
/// placeholder
pub struct Xtc;
impl Format for Xtc {
    fn info(&self) -> &'static FormatInfo {
        unimplemented!()
    }
    fn sniff(&self, _: &[u8]) -> bool {
        false
    }
    fn open(&self, _: &dyn Source) -> Result<Arc<dyn Decoder>> {
        unimplemented!()
    }
}
