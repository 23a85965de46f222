//! The proxies in front of the server.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

/// Prefix of IPv4 addresses inside IPv6, `::ffff:0:0/96`.
const MAPPED_PREFIX: u8 = 96;

/// The networks of proxies whose forwarding headers are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Whether the address belongs to a trusted proxy.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl FromStr for TrustedProxies {
    type Err = String;

    /// Parses a comma-separated list of addresses and networks in CIDR notation.
    fn from_str(list: &str) -> Result<Self, String> {
        let members = list.split(',').map(str::trim).filter(|text| !text.is_empty());
        let networks = members.map(network).collect::<Result<Vec<_>, _>>()?;
        // Merged, so that two halves of the address space are recognised as all of it.
        let networks = IpNet::aggregate(&networks);
        if let Some(all) = networks.iter().find(|network| network.prefix_len() == 0) {
            return Err(format!(
                "the list covers {all}, so every client could choose its own address; name the proxies only"
            ));
        }
        Ok(Self(networks))
    }
}

/// An address or a network; an IPv4 network inside IPv6 as IPv4.
fn network(text: &str) -> Result<IpNet, String> {
    let wanted = "an address or a network in CIDR notation, such as 10.0.0.7 or 10.1.0.0/16";
    let network = text.parse::<IpNet>().ok();
    let network = network.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    let network = network.ok_or_else(|| format!("{text:?} is not {wanted}"))?;
    let mapped = match network {
        IpNet::V6(v6) if MAPPED_PREFIX <= v6.prefix_len() => v6.addr().to_ipv4_mapped(),
        _ => None,
    };
    let v4 =
        mapped.and_then(|address| Ipv4Net::new(address, network.prefix_len() - MAPPED_PREFIX).ok());
    Ok(v4.map_or(network, IpNet::V4))
}
