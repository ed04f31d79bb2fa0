//! Blocks of the caches of a job's nodes: each block has a home, which every node computes alone by rendezvous hashing.
//!
//! Source: D. G. Thaler, C. V. Ravishankar, IEEE/ACM Trans. Networking 6 (1998) 1: the node with the highest hash of node and block.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kinema_core::source::Extent;
use kinema_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64;

use super::channel::Message;
use super::served::name_of;
use super::{Client, Key, Patience};
use crate::cache::{Answer, Nodes, WantedBlock};

/// For this long, a peer that was too slow or unreachable is not asked.
const PAUSE: Duration = Duration::from_secs(10);
/// How often a connection is tried once more.
const ATTEMPTS: u32 = 3;
/// Connections to a peer that are kept.
const KEPT: usize = 4;

/// A node of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name, the same on all nodes.
    pub name: String,
    /// Address of its server.
    pub host: String,
    /// Port of its server.
    pub port: u16,
}

struct Peer {
    node: Node,
    /// Idle connections, and the process that made them.
    kept: Mutex<(u32, Vec<Client>)>,
    asked_from: Mutex<Option<Instant>>,
}

/// All nodes of a job, as one of them sees them.
pub struct BlockNodes {
    own: String,
    peers: Vec<Peer>,
    key: Key,
    step: Duration,
}

static NEVER: AtomicBool = AtomicBool::new(false);

impl BlockNodes {
    /// Peers from all nodes; `own` is the name of this one. `step` is how long a peer may take for each step.
    pub fn new(own: String, nodes: Vec<Node>, key: Key, step: Duration) -> Self {
        let peer = |node| Peer { node, kept: Mutex::default(), asked_from: Mutex::default() };
        Self { own, peers: nodes.into_iter().map(peer).collect(), key, step }
    }

    /// The home of a block; `None` if it is this node.
    fn home(&self, file: u128, number: u64) -> Option<&Peer> {
        let weight = |peer: &&Peer| {
            let mut bytes = [&file.to_le_bytes()[..], &number.to_le_bytes()].concat();
            bytes.extend_from_slice(peer.node.name.as_bytes());
            (xxh3_64(&bytes), peer.node.name.clone())
        };
        self.peers.iter().max_by_key(weight).filter(|peer| peer.node.name != self.own)
    }

    fn ask(&self, peer: &Peer, wanted: &WantedBlock, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let patience = Patience { step: self.step, until: None, stop: &NEVER };
        let name = name_of(wanted);
        let all = Extent { offset: 0, len: u64::MAX };
        let (begun, began) = (Cell::new(false), Instant::now());
        let mut counted = |piece: &mut Message| {
            begun.set(true);
            take(piece.bytes())
        };
        // the peer closes connections that are not used for a while
        if let Some(mut client) = peer.take() {
            match client.read(&name, all, &patience, &mut counted) {
                Ok(_) => {
                    peer.keep(client);
                    return Ok(());
                }
                Err(error) if begun.get() || error.kind() != ErrorKind::Io => return Err(error),
                Err(_) => {}
            }
        }
        let mut attempt = 0;
        let client = loop {
            let connected = Client::connect(&peer.node.host, peer.node.port, &self.key, &patience)
                .and_then(|mut client| client.read(&name, all, &patience, &mut counted).map(|_| client));
            match connected {
                // it sends connections away where very many come at once
                Err(error)
                    if error.kind() == ErrorKind::Io && attempt < ATTEMPTS && began.elapsed() < self.step / 2 =>
                {
                    if begun.get() {
                        return Err(error);
                    }
                    std::thread::sleep(Duration::from_millis(10 << (2 * attempt)));
                    attempt += 1;
                }
                connected => break connected?,
            }
        };
        peer.keep(client);
        Ok(())
    }
}

impl Peer {
    fn take(&self) -> Option<Client> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0 != std::process::id() {
            // a child does not speak on the connections of its parent
            *kept = (std::process::id(), Vec::new());
        }
        kept.1.pop()
    }

    fn keep(&self, client: Client) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0 == std::process::id() && kept.1.len() < KEPT {
            kept.1.push(client);
        }
    }
}

impl Nodes for BlockNodes {
    fn is_away(&self, file: u128, number: u64) -> bool {
        self.home(file, number).is_some()
    }

    fn fetch(&self, wanted: &WantedBlock, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Answer> {
        let Some(peer) = self.home(wanted.file, wanted.number) else {
            return Err(Error::new(ErrorKind::Internal, "a node asks itself for a block"));
        };
        let place = |error: &Error| format!("node {} (port {}): {}", peer.node.host, peer.node.port, error.what());
        if let Some(from) = *peer.asked_from.lock().unwrap_or_else(PoisonError::into_inner)
            && Instant::now() < from
        {
            return Err(Error::new(ErrorKind::Io, format!("node {} failed a moment ago", peer.node.host)));
        }
        self.ask(peer, wanted, take).map(|()| Answer::Given(None)).map_err(|error| {
            // a peer that answers may lack this block and have others
            if error.kind() != ErrorKind::NotFound {
                let from = Instant::now() + PAUSE;
                *peer.asked_from.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
            }
            Error::new(error.kind(), place(&error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(own: &str, names: &[&str]) -> BlockNodes {
        let node = |name: &&str| Node { name: (*name).into(), host: "127.0.0.1".into(), port: 1 };
        let key = Key::new(&[1; 32]).unwrap();
        BlockNodes::new(own.into(), names.iter().map(node).collect(), key, Duration::from_secs(1))
    }

    #[test]
    fn each_block_has_one_home_and_few_move_when_a_node_goes() {
        let names = ["a", "b", "c", "d"];
        let seen: Vec<_> = names.iter().map(|own| nodes(own, &names)).collect();
        let others = nodes("a", &["d", "b", "a"]);
        let (mut counts, mut moved) = ([0; 4], 0);
        for number in 0..4000 {
            let at_home: Vec<_> = (0..4).filter(|&i| !seen[i].is_away(7, number)).collect();
            assert_eq!(at_home.len(), 1);
            counts[at_home[0]] += 1;
            let home = seen[0].home(7, number).map_or("a", |peer| &peer.node.name);
            let then = others.home(7, number).map_or("a", |peer| &peer.node.name);
            moved += u32::from(home != then);
            assert!(home == then || home == "c");
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert!((850..1150).contains(&moved));
        // alone, everything is at home
        assert!((0..100).all(|number| !nodes("a", &["a"]).is_away(7, number)));
    }
}
