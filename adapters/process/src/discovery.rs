//! Tools that the program offers. It must not change them.

use taskbridge_sdk::{DiscoveredTool, Discovery, Result, async_trait};

use crate::core::Core;
use crate::protocol::Empty;

#[async_trait]
impl Discovery for Core {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        self.call("discover", &Empty {}).await
    }
}
