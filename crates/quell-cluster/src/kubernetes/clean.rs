//! Takes everything of Quell's off the nodes.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;

use super::calls::Calls;
use super::{LABEL, TAINT};
use crate::ClusterError;
use crate::contention::ANNOTATION;

/// Cleans every node; returns the names of those that were not clean.
///
/// # Errors
/// The first of the API server's; the other nodes were cleaned all the same.
pub fn clean(calls: &Calls) -> Result<Vec<String>, ClusterError> {
    let nodes: Api<Node> = Api::all(calls.client());
    let parameters = ListParams::default();
    let list = calls.wait("list", "nodes", nodes.list(&parameters))?;
    let (mut cleaned, mut first) = (Vec::new(), None);
    for node in list.items.iter().filter(|node| !is_clean(node)) {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        match calls.clean(name, true) {
            Ok(()) => cleaned.push(name.to_owned()),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(cleaned), Err)
}

fn is_clean(node: &Node) -> bool {
    let meta = &node.metadata;
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let is_labelled = meta.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL));
    let is_reported = meta.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(ANNOTATION));
    !is_labelled && !is_reported && !taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == TAINT))
}
