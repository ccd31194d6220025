//! Keeps the world: lists, watches, and lists again when a watch is lost.

use std::collections::BTreeMap;
use std::fmt::Debug;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::seen::{NodeSeen, PodSeen};
use super::world::{Objects, World};

/// Keeps nodes and pods until it is dropped; what fails is tried again, later and later.
pub async fn follow(client: Client, world: World) {
    let node = |node: &Node| Some((node.metadata.name.clone()?, NodeSeen::of(node)));
    let pod = |pod: &Pod| Some((pod.metadata.uid.clone()?, PodSeen::of(pod)?));
    let nodes = keep(
        Api::all(client.clone()),
        world.clone(),
        node,
        |meta| meta.name.clone(),
        |objects| (&mut objects.nodes, &mut objects.listed.0),
    );
    let pods = keep(
        Api::all(client),
        world,
        pod,
        |meta| meta.uid.clone(),
        |objects| (&mut objects.pods, &mut objects.listed.1),
    );
    futures::join!(nodes, pods);
}

type Meta = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

async fn keep<K, S: PartialEq>(
    api: Api<K>,
    world: World,
    reduce: impl Fn(&K) -> Option<(String, S)>,
    key: impl Fn(&Meta) -> Option<String>,
    part: impl Fn(&mut Objects) -> (&mut BTreeMap<String, S>, &mut bool),
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let configuration = watcher::Config::default().any_semantic();
    let mut events = watcher::watcher(api, configuration).default_backoff().boxed();
    let mut listed: BTreeMap<String, S> = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => listed.extend(reduce(&object)),
            Ok(Event::InitDone) => {
                let all = std::mem::take(&mut listed);
                world.change(|objects| {
                    let (map, is_listed) = part(objects);
                    (*map, *is_listed) = (all, true);
                    true
                });
            }
            Ok(Event::Apply(object)) => {
                let (Some(key), seen) = (key(object.meta()), reduce(&object)) else { continue };
                world.change(|objects| {
                    let map = part(objects).0;
                    match seen {
                        Some((_, seen)) if map.get(&key) == Some(&seen) => false,
                        Some((_, seen)) => {
                            map.insert(key, seen);
                            true
                        }
                        None => map.remove(&key).is_some(),
                    }
                });
            }
            Ok(Event::Delete(object)) => {
                let Some(key) = key(object.meta()) else { continue };
                world.change(|objects| part(objects).0.remove(&key).is_some());
            }
            Err(error) => tracing::warn!("watching {}: {error}; trying again", K::plural(&())),
        }
    }
}
