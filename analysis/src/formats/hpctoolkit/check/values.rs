//! Rules of profile.db and cct.db, which have the same values in two orders.

use super::{
    super::{
        layout::{
            CONTEXT, ContextIndex, ContextInfo, ContextInfos, IS_PHYSICAL, IdTuple, Identifier, MetricIndex,
            MetricValue, PROFILE, Profiles, Record, Scope, ThreadProfile, ThreadValue, scope,
        },
        profile_db::is_summary,
    },
    Checked, Finding, are_equal, contains,
    meta::CheckedMeta,
    overlap,
};
use foldhash::fast::RandomState;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

/// What the rules of other files need of profile.db.
#[derive(Debug, Default)]
pub(super) struct CheckedProfiles {
    /// For each profile, whether it is of a thread.
    pub(super) are_threads: Vec<bool>,
    pub(super) threads: usize,
    /// All values of threads, sorted.
    pub(super) values: Vec<ThreadsValue>,
}

/// A value with its coordinates, in the order of cct.db.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ThreadsValue {
    context: u32,
    metric: u16,
    profile: u32,
    bits: u64,
}

/// The values of a profile, by context and metric.
type ValueMap = HashMap<(u32, u16), f64, RandomState>;

pub(super) fn check_profiles(
    bytes: &[u8],
    meta: &CheckedMeta,
    findings: &mut Vec<Finding>,
) -> Option<CheckedProfiles> {
    const SECTION: &str = "ProfileInfos";
    let mut checked = Checked::open(PROFILE, bytes, findings)?;
    let (offset, head) = checked.head::<Profiles>(SECTION)?;
    let array = ("pProfiles", SECTION);
    let profiles =
        checked.array::<ThreadProfile>(offset, array, head.profiles, head.count.into(), head.size.into())?;
    checked.ensure(profiles.len() > 0, offset, || "there is no profile, not even the summary".into());
    let mut result = CheckedProfiles::default();
    let mut blocks: BTreeMap<u64, u64> = BTreeMap::new();
    let mut tuples: HashMap<Vec<(u8, u64)>, usize, RandomState> = HashMap::default();
    let mut sums: HashMap<(u32, u16), f64, RandomState> = HashMap::default();
    let mut summary = ValueMap::default();
    let mut unknown = BTreeSet::new();
    for (place, profile) in profiles.iter().enumerate() {
        let at = profiles.offset(place);
        let is_thread = !is_summary(&profile);
        result.are_threads.push(is_thread);
        if place == 0 {
            let is_canonical = !is_thread && profile.id_tuple == 0;
            checked
                .ensure(is_canonical, at, || "the first profile is not a summary without identifiers".into());
        } else if let Some(tuple) = check_tuple(&mut checked, at, &profile, meta.kinds) {
            if let Some(other) = tuples.insert(tuple, place) {
                checked.ensure(!is_thread, at, || {
                    format!("profiles {other} and {place} have equal identifiers")
                });
            }
        }
        let block = Block {
            what: format!("profile {place}"),
            values: profile.values,
            values_bytes: profile.value_count.checked_mul(MetricValue::SIZE as u64),
            index: profile.contexts,
            index_bytes: u64::from(profile.context_count) * ContextIndex::SIZE as u64,
            alignments: (MetricValue::ALIGNMENT as u64, ContextIndex::ALIGNMENT as u64),
        };
        block.check(&mut checked, at, &mut blocks);
        let Some(values) = profile_values(&mut checked, at, place, &profile, meta, &mut unknown) else {
            continue;
        };
        if is_thread {
            result.threads += 1;
            check_scopes(&mut checked, at, place, &values, meta);
            for (&(context, metric), &value) in &values {
                *sums.entry((context, metric)).or_default() += value;
                // The number of profiles has 32 bits.
                let profile = place as u32;
                result.values.push(ThreadsValue { context, metric, profile, bits: value.to_bits() });
            }
        } else if place == 0 {
            summary = values;
        }
    }
    if !unknown.is_empty() {
        checked.note(offset, format!("{} contexts with values are not in meta.db", unknown.len()));
    }
    check_summary(&mut checked, offset, &summary, &sums, meta);
    result.values.sort_unstable();
    Some(result)
}

/// Returns the identifiers of a profile.
fn check_tuple(
    checked: &mut Checked<'_, '_>,
    at: u64,
    profile: &ThreadProfile,
    kinds: usize,
) -> Option<Vec<(u8, u64)>> {
    let pointer = profile.id_tuple;
    checked.aligned::<IdTuple>(at, "the identifiers", pointer);
    let tuple = checked.file.record::<IdTuple>(pointer);
    let tuple = checked.ok(at, tuple)?;
    let start = pointer.saturating_add(IdTuple::SIZE as u64);
    let ids = checked.file.array::<Identifier>(start, tuple.count.into(), Identifier::SIZE);
    let ids = checked.ok(at, ids)?;
    let range = pointer..start + (ids.len() * Identifier::SIZE) as u64;
    let is_within = contains(&checked.section("IdTuples"), &range);
    checked.ensure(is_within, at, || "pIdTuple is not within section IdTuples".into());
    checked.ensure(ids.len() > 0, pointer, || "an identifier tuple is empty".into());
    let mut result = Vec::new();
    for (place, id) in ids.iter().enumerate() {
        let at = ids.offset(place);
        checked
            .ensure(usize::from(id.kind) < kinds, at, || format!("kind {} has no name in meta.db", id.kind));
        let is_physical = id.flags & IS_PHYSICAL != 0;
        checked.ensure(is_physical || id.physical == u64::from(id.logical), at, || {
            format!("the physicalId of a logical identifier is {}, not {}", id.physical, id.logical)
        });
        result.push((id.kind, if is_physical { id.physical } else { id.logical.into() }));
    }
    Some(result)
}

/// Values, and the index of them that follows.
struct Block {
    what: String,
    values: u64,
    values_bytes: Option<u64>,
    index: u64,
    index_bytes: u64,
    alignments: (u64, u64),
}

impl Block {
    /// Checks alignment and order, and that it is apart from sections and other blocks.
    fn check(self, checked: &mut Checked<'_, '_>, at: u64, others: &mut BTreeMap<u64, u64>) {
        let Self { what, values, values_bytes, index, index_bytes, alignments } = self;
        let Some(values_bytes) = values_bytes.filter(|&bytes| bytes > 0 || index_bytes > 0) else { return };
        let ends = values.checked_add(values_bytes).zip(index.checked_add(index_bytes));
        // Pointers beyond the file are reported by the look-up.
        let Some((values_end, end)) = ends.filter(|&(_, end)| end <= checked.file.bytes.len() as u64) else {
            return;
        };
        for (pointer, alignment) in [(values, alignments.0), (index, alignments.1)] {
            checked.ensure(pointer % alignment == 0, at, || {
                format!("a pointer of {what} ({pointer:#x}) is not a multiple of {alignment}")
            });
        }
        // Padding aligns to at most 8 bytes.
        let is_next = values_end <= index && index - values_end < 8;
        checked.ensure(is_next, at, || format!("the index of {what} does not follow its values"));
        if !is_next {
            return;
        }
        let range = values..end;
        checked.is_outside(at, &format!("the values of {what}"), &range);
        let before = others.range(..range.end).next_back().map(|(&start, &end)| start..end);
        checked.ensure(before.is_none_or(|before| !overlap(&before, &range)), at, || {
            format!("the values of {what} overlap those of another one")
        });
        others.insert(range.start, range.end);
    }
}

/// Returns the ranges of an index, and whether it is sound.
fn ranges(
    checked: &mut Checked<'_, '_>,
    at: u64,
    what: &str,
    starts: impl Iterator<Item = u64>,
    count: u64,
) -> Option<Vec<Range<usize>>> {
    let mut starts: Vec<u64> = starts.collect();
    if starts.is_empty() {
        checked.ensure(count == 0, at, || format!("{what} has values, but no index"));
        return Some(Vec::new());
    }
    checked.ensure(starts[0] == 0, at, || format!("the first startIndex of {what} is {}", starts[0]));
    starts.push(count);
    let is_ascending = starts.windows(2).all(|pair| pair[0] < pair[1]);
    checked.ensure(is_ascending, at, || format!("the startIndex of {what} do not ascend up to {count}"));
    is_ascending.then(|| starts.windows(2).map(|pair| pair[0] as usize..pair[1] as usize).collect())
}

/// Checks order and contents of a profile's values, and returns them.
fn profile_values(
    checked: &mut Checked<'_, '_>,
    at: u64,
    place: usize,
    profile: &ThreadProfile,
    meta: &CheckedMeta,
    unknown: &mut BTreeSet<u32>,
) -> Option<ValueMap> {
    let what = format!("profile {place}");
    let values = checked.file.array::<MetricValue>(profile.values, profile.value_count, MetricValue::SIZE);
    let values = checked.ok(at, values)?;
    let contexts = checked.file.array::<ContextIndex>(
        profile.contexts,
        profile.context_count.into(),
        ContextIndex::SIZE,
    );
    let contexts = checked.ok(at, contexts)?;
    let starts = contexts.iter().map(|context| context.start);
    let ranges = ranges(checked, at, &what, starts, profile.value_count)?;
    let is_thread = !is_summary(profile);
    let mut result = ValueMap::default();
    let mut last = None;
    for (place, (context, range)) in contexts.iter().zip(ranges).enumerate() {
        let id = context.context_id;
        checked.ensure(last < Some(id), contexts.offset(place), || {
            format!("{what}: context {id} is not after the one before it")
        });
        last = Some(id);
        if !meta.by_id.contains_key(&id) {
            unknown.insert(id);
        }
        let mut last_metric = None;
        for place in range {
            let MetricValue { metric_id, value } = values.get(place);
            let at = values.offset(place);
            checked.ensure(last_metric < Some(metric_id), at, || {
                format!("{what}, context {id}: metric {metric_id} is not after the one before it")
            });
            last_metric = Some(metric_id);
            let is_known = if is_thread {
                meta.of_threads.contains_key(&metric_id)
            } else {
                meta.of_summary.contains_key(&metric_id)
            };
            checked.ensure(is_known, at, || {
                format!("{what}, context {id}: metric {metric_id} is not in meta.db")
            });
            checked.ensure(value.is_finite() && value != 0.0, at, || {
                format!("{what}, context {id}: the value of metric {metric_id} is {value}")
            });
            result.insert((id, metric_id), value);
        }
    }
    Some(result)
}

/// Checks that values by scope contain those of children, and that point values are in them.
fn check_scopes(checked: &mut Checked<'_, '_>, at: u64, place: usize, values: &ValueMap, meta: &CheckedMeta) {
    let mut of_children: ValueMap = ValueMap::default();
    for (&(id, metric), &value) in values {
        let Some((node, scope)) = meta.by_id.get(&id).zip(meta.of_threads.get(&metric)) else { continue };
        let node = meta.nodes[*node as usize];
        if let Some(parent) = node.parent.filter(|_| is_included(scope, node.propagation)) {
            *of_children.entry((meta.nodes[parent as usize].id, metric)).or_default() += value;
        }
    }
    for ((id, metric), sum) in of_children {
        let value = values.get(&(id, metric)).copied().unwrap_or(0.0);
        // The implicit context has only what its children have.
        let is_sound = are_equal(value, sum) || (id != 0 && value > sum);
        checked.ensure(is_sound, at, || {
            format!("profile {place}, metric {metric}: context {id} has {value}, and its children have {sum}")
        });
    }
}

/// Whether a parent's value includes the one of a context with these bits.
fn is_included(scope: &Scope, propagation: u16) -> bool {
    match scope.kind {
        scope::EXECUTION => true,
        scope::TRANSITIVE => {
            1_u16.checked_shl(scope.propagation_index.into()).is_some_and(|bit| propagation & bit != 0)
        }
        _ => false,
    }
}

/// Checks that the summary has the sums over threads.
fn check_summary(
    checked: &mut Checked<'_, '_>,
    at: u64,
    summary: &ValueMap,
    sums: &HashMap<(u32, u16), f64, RandomState>,
    meta: &CheckedMeta,
) {
    // hpcprof's values of custom scopes do not add up.
    let is_checked =
        |metric: &u16| meta.of_threads.get(metric).is_some_and(|scope| scope.kind != scope::CUSTOM);
    let metric_of = |statistic: &u16| meta.of_summary.get(statistic).copied().flatten().filter(is_checked);
    let mut found: HashMap<(u32, u16), usize, RandomState> = HashMap::default();
    for (&(id, statistic), &value) in summary {
        let Some(metric) = metric_of(&statistic) else { continue };
        *found.entry((id, metric)).or_default() += 1;
        let sum = sums.get(&(id, metric)).copied().unwrap_or(0.0);
        checked.ensure(are_equal(value, sum), at, || {
            format!("the summary of context {id} has {value} of metric {metric}, and the threads have {sum}")
        });
    }
    let mut expected: HashMap<u16, usize, RandomState> = HashMap::default();
    for metric in meta.of_summary.keys().filter_map(metric_of) {
        *expected.entry(metric).or_default() += 1;
    }
    let count = |of: Option<&usize>| of.copied().unwrap_or(0);
    for (key @ (id, metric), &sum) in sums {
        let is_complete = count(found.get(key)) >= count(expected.get(metric));
        checked.ensure(is_complete || are_equal(sum, 0.0), at, || {
            format!("the summary lacks metric {metric} of context {id}, and the threads have {sum}")
        });
    }
}

/// Checks cct.db, and that it has the values of profile.db.
pub(super) fn check_contexts(
    bytes: &[u8],
    meta: &CheckedMeta,
    profiles: &CheckedProfiles,
    findings: &mut Vec<Finding>,
) -> Option<()> {
    const SECTION: &str = "CtxInfos";
    let mut checked = Checked::open(CONTEXT, bytes, findings)?;
    let (offset, head) = checked.head::<ContextInfos>(SECTION)?;
    let array = ("pCtxs", SECTION);
    let contexts =
        checked.array::<ContextInfo>(offset, array, head.contexts, head.count.into(), head.size.into())?;
    checked.ensure(head.count > meta.largest_id, offset, || {
        format!("{} contexts, and meta.db has the ctxId {}", head.count, meta.largest_id)
    });
    let mut blocks: BTreeMap<u64, u64> = BTreeMap::new();
    let mut expected = profiles.values.iter().copied().peekable();
    let mut missing = 0_u64;
    for (id, context) in contexts.iter().enumerate() {
        let (at, what) = (contexts.offset(id), format!("context {id}"));
        Block {
            what: what.clone(),
            values: context.values,
            values_bytes: context.value_count.checked_mul(ThreadValue::SIZE as u64),
            index: context.metrics,
            index_bytes: u64::from(context.metric_count) * MetricIndex::SIZE as u64,
            alignments: (ThreadValue::ALIGNMENT as u64, MetricIndex::ALIGNMENT as u64),
        }
        .check(&mut checked, at, &mut blocks);
        let values =
            checked.file.array::<ThreadValue>(context.values, context.value_count, ThreadValue::SIZE);
        let metrics = checked.file.array::<MetricIndex>(
            context.metrics,
            context.metric_count.into(),
            MetricIndex::SIZE,
        );
        let Some((values, metrics)) = checked.ok(at, values).zip(checked.ok(at, metrics)) else { continue };
        let starts = metrics.iter().map(|metric| metric.start);
        let Some(ranges) = ranges(&mut checked, at, &what, starts, context.value_count) else { continue };
        let mut last = None;
        for (place, (metric, range)) in metrics.iter().zip(ranges).enumerate() {
            let metric_id = metric.metric_id;
            let at = metrics.offset(place);
            checked.ensure(last < Some(metric_id), at, || {
                format!("{what}: metric {metric_id} is not after the one before it")
            });
            last = Some(metric_id);
            checked.ensure(meta.of_threads.contains_key(&metric_id), at, || {
                format!("{what}: metric {metric_id} is not in meta.db")
            });
            let mut last_profile = None;
            for place in range {
                let ThreadValue { profile, value } = values.get(place);
                let at = values.offset(place);
                checked.ensure(last_profile < Some(profile), at, || {
                    format!("{what}, metric {metric_id}: profile {profile} is not after the one before it")
                });
                last_profile = Some(profile);
                let is_thread = profiles.are_threads.get(profile as usize).copied().unwrap_or(false);
                checked.ensure(is_thread, at, || format!("{what}: profile {profile} is not one of a thread"));
                // The number of contexts has 32 bits.
                let found =
                    ThreadsValue { context: id as u32, metric: metric_id, profile, bits: value.to_bits() };
                let key = |value: &ThreadsValue| (value.context, value.metric, value.profile);
                while expected.next_if(|value| key(value) < key(&found)).is_some() {
                    missing += 1;
                }
                let is_same = expected.next_if(|value| key(value) == key(&found)) == Some(found);
                checked.ensure(is_same, at, || {
                    format!("{what}, metric {metric_id}, profile {profile}: {value}, and profile.db has another value")
                });
            }
        }
    }
    missing += expected.count() as u64;
    checked.ensure(missing == 0, offset, || format!("{missing} values of profile.db are missing"));
    Some(())
}
