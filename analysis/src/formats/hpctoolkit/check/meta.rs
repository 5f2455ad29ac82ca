//! Rules of meta.db.

use super::{
    super::{
        layout::{
            Context, Contexts, EntryPoint, Function, General, IS_COPIED, IdNames, List, META, Metric,
            Metrics, Module, Record, Scalar, Scope, ScopeInstance, SourceFile, Summary, has, lexical,
            relation, scope,
        },
        meta::{Lexical, Meta, Step},
    },
    Checked, Finding, contains,
};
use foldhash::fast::RandomState;
use std::{collections::HashMap, path::Path};

/// What the rules of other files need of meta.db.
#[derive(Debug, Default)]
pub(super) struct CheckedMeta {
    pub(super) metrics: usize,
    pub(super) kinds: usize,
    /// The scope of each metric of threads, by its ID.
    pub(super) of_threads: HashMap<u16, Scope, RandomState>,
    /// The metric of threads that a metric of the summary adds up; None for other statistics.
    pub(super) of_summary: HashMap<u16, Option<u16>, RandomState>,
    /// The contexts; the first is the implicit one.
    pub(super) nodes: Vec<CheckedNode>,
    pub(super) by_id: HashMap<u32, u32, RandomState>,
    pub(super) largest_id: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckedNode {
    pub(super) id: u32,
    pub(super) parent: Option<u32>,
    pub(super) propagation: u16,
}

/// Elements of an array, to which other structures point.
#[derive(Clone, Copy, Debug, Default)]
struct Elements {
    start: u64,
    count: u64,
    size: u64,
}

impl Elements {
    fn has(&self, pointer: u64) -> bool {
        let distance = pointer.wrapping_sub(self.start);
        self.size != 0 && distance % self.size == 0 && distance / self.size < self.count
    }
}

pub(super) fn check(
    bytes: &[u8],
    directory: Option<&Path>,
    findings: &mut Vec<Finding>,
) -> Option<CheckedMeta> {
    let mut checked = Checked::open(META, bytes, findings)?;
    let mut meta = CheckedMeta::default();
    check_general(&mut checked);
    meta.kinds = check_kinds(&mut checked).unwrap_or(0);
    check_metrics(&mut checked, &mut meta);
    let lists = Lists::check(&mut checked, directory).unwrap_or_default();
    check_contexts(&mut checked, &lists, &mut meta);
    Some(meta)
}

fn check_general(checked: &mut Checked<'_, '_>) -> Option<()> {
    let (offset, general) = checked.head::<General>("General")?;
    checked.text(offset, ("pTitle", "General"), general.title);
    checked.text(offset, ("pDescription", "General"), general.description);
    Some(())
}

fn check_kinds(checked: &mut Checked<'_, '_>) -> Option<usize> {
    let (offset, names) = checked.head::<IdNames>("IdNames")?;
    let pointers = checked.file.slice(names.names, u64::from(names.count) * 8);
    let pointers = checked.ok(offset, pointers)?;
    let range = names.names..names.names + pointers.len() as u64;
    let is_within = contains(&checked.section("IdNames"), &range);
    checked.ensure(is_within, offset, || "ppNames is not within section IdNames".into());
    let mut known: Vec<String> = Vec::new();
    for (place, pointer) in pointers.chunks_exact(8).enumerate() {
        let at = names.names + 8 * place as u64;
        if let Some(name) = checked.text(at, ("a name of a kind", "IdNames"), u64::decode(pointer)) {
            checked.ensure(!known.contains(&name), at, || format!("two kinds have the name {name:?}"));
            known.push(name);
        }
    }
    Some(usize::from(names.count))
}

fn check_metrics(checked: &mut Checked<'_, '_>, meta: &mut CheckedMeta) -> Option<()> {
    const SECTION: &str = "Metrics";
    let (offset, head) = checked.head::<Metrics>(SECTION)?;
    let scopes = checked.array::<Scope>(
        offset,
        ("pScopes", SECTION),
        head.scopes,
        head.scope_count.into(),
        head.scope_size.into(),
    )?;
    for (place, scope) in scopes.iter().enumerate() {
        let at = scopes.offset(place);
        let name = checked.text(at, ("pScopeName", SECTION), scope.name).unwrap_or_default();
        checked.ensure(scope.kind <= scope::TRANSITIVE, at, || {
            format!("scope {name:?} has the unknown type {}", scope.kind)
        });
        let is_bit = scope.kind != scope::TRANSITIVE || scope.propagation_index < 16;
        checked.ensure(is_bit, at, || {
            format!(
                "scope {name:?} has the propagationIndex {}, and contexts have 16 bits",
                scope.propagation_index
            )
        });
    }
    let known = Elements { start: head.scopes, count: head.scope_count.into(), size: head.scope_size.into() };
    let metrics = checked.array::<Metric>(
        offset,
        ("pMetrics", SECTION),
        head.metrics,
        head.metric_count.into(),
        head.metric_size.into(),
    )?;
    meta.metrics = metrics.len();
    for (place, metric) in metrics.iter().enumerate() {
        let at = metrics.offset(place);
        let name = checked.text(at, ("pName", SECTION), metric.name).unwrap_or_default();
        let instances = checked.array::<ScopeInstance>(
            at,
            ("pScopeInsts", SECTION),
            metric.scope_instances,
            metric.scope_instance_count.into(),
            head.scope_instance_size.into(),
        )?;
        // By the pointer of the scope.
        let mut of_scopes: Vec<(u64, u16)> = Vec::new();
        for (place, instance) in instances.iter().enumerate() {
            let at = instances.offset(place);
            if checked
                .ensure(known.has(instance.scope), at, || format!("a pScope of {name:?} is not in pScopes"))
            {
                let scope = checked.file.record::<Scope>(instance.scope).unwrap_or_default();
                let before = meta.of_threads.insert(instance.metric_id, scope);
                checked.ensure(before.is_none(), at, || {
                    format!("two scopes have the propMetricId {}", instance.metric_id)
                });
                of_scopes.push((instance.scope, instance.metric_id));
            }
        }
        let summaries = checked.array::<Summary>(
            at,
            ("pSummaries", SECTION),
            metric.summaries,
            metric.summary_count.into(),
            head.summary_size.into(),
        )?;
        for (place, summary) in summaries.iter().enumerate() {
            let at = summaries.offset(place);
            checked
                .ensure(known.has(summary.scope), at, || format!("a pScope of {name:?} is not in pScopes"));
            let formula = checked.text(at, ("pFormula", SECTION), summary.formula).unwrap_or_default();
            checked
                .ensure(summary.combine <= 2, at, || format!("combine is {}, not 0 to 2", summary.combine));
            let is_sum = summary.combine == 0 && formula == "$$";
            let sum_of = of_scopes.iter().find(|(scope, _)| *scope == summary.scope).map(|&(_, id)| id);
            let before = meta.of_summary.insert(summary.metric_id, sum_of.filter(|_| is_sum));
            checked.ensure(before.is_none(), at, || {
                format!("two statistics have the statMetricId {}", summary.metric_id)
            });
        }
    }
    Some(())
}

/// The modules, files and functions.
#[derive(Default)]
struct Lists {
    modules: Elements,
    files: Elements,
    functions: Elements,
}

impl Lists {
    fn check(checked: &mut Checked<'_, '_>, directory: Option<&Path>) -> Option<Self> {
        let mut lists = Self::default();
        let (modules, elements) = list::<Module>(checked, "Modules")?;
        lists.modules = elements;
        for (place, module) in modules.iter().enumerate() {
            checked.text(modules.offset(place), ("pPath", "Strings"), module.path);
        }
        let (files, elements) = list::<SourceFile>(checked, "Files")?;
        lists.files = elements;
        for (place, file) in files.iter().enumerate() {
            let at = files.offset(place);
            let Some(path) = checked.text(at, ("pPath", "Strings"), file.path) else { continue };
            let copy = directory.filter(|_| file.flags & IS_COPIED != 0).map(|root| root.join(&path));
            if copy.is_some_and(|copy| !copy.is_file()) {
                checked.note(at, format!("the copy {path:?} of a source is missing"));
            }
        }
        let (functions, elements) = list::<Function>(checked, "Functions")?;
        lists.functions = elements;
        for (place, function) in functions.iter().enumerate() {
            let at = functions.offset(place);
            match function.name {
                0 => checked
                    .note(at, "a function without a name, which several readers show as HPCTOOLKITmeta"),
                name => drop(checked.text(at, ("pName", "Strings"), name)),
            }
            let is_known = function.name != 0 || function.module != 0 || function.file != 0;
            checked.ensure(is_known, at, || "a function has neither name nor module nor file".into());
            let is_module = function.module == 0 || lists.modules.has(function.module);
            checked.ensure(is_module, at, || "pModule of a function is not in pModules".into());
            let is_file = function.file == 0 || lists.files.has(function.file);
            checked.ensure(is_file, at, || "pFile of a function is not in pFiles".into());
        }
        Some(lists)
    }
}

fn list<'a, R: Record>(
    checked: &mut Checked<'a, '_>,
    section: &'static str,
) -> Option<(super::Array<'a, R>, Elements)> {
    let (offset, head) = checked.head::<List>(section)?;
    let name = format!("p{section}");
    let array = checked.array(offset, (&name, section), head.start, head.count.into(), head.size.into())?;
    let elements = Elements { start: head.start, count: head.count.into(), size: head.size.into() };
    Some((array, elements))
}

fn check_contexts(checked: &mut Checked<'_, '_>, lists: &Lists, meta: &mut CheckedMeta) -> Option<()> {
    const SECTION: &str = "Context";
    let (offset, head) = checked.head::<Contexts>(SECTION)?;
    let entries = ("pEntryPoints", SECTION);
    checked.array::<EntryPoint>(offset, entries, head.entry_points, head.count.into(), head.size.into())?;
    meta.nodes.push(CheckedNode::default());
    meta.by_id.insert(0, 0);
    let mut path = vec![0_u32];
    let mut dangling = 0;
    let walk = Meta { file: checked.file }.contexts();
    for step in checked.ok(offset, walk)? {
        let step = checked.ok(offset, step)?;
        let (at, node, children, size) = match step {
            Step::Leave => {
                path.pop();
                continue;
            }
            Step::EntryPoint(at, entry) => {
                checked.text(at, ("pPrettyName", "Strings"), entry.name);
                if entry.kind > 2 {
                    checked.note(at, format!("an entry point of the unknown type {}", entry.kind));
                }
                let node = CheckedNode { id: entry.id, ..CheckedNode::default() };
                (at, node, entry.children, entry.children_size)
            }
            Step::Context(at, context, lexical) => {
                check_context(checked, lists, at, &context, lexical);
                let node = CheckedNode {
                    id: context.id,
                    propagation: context.propagation,
                    ..CheckedNode::default()
                };
                (at, node, context.children, context.children_size)
            }
        };
        dangling += usize::from(size == 0 && children != 0);
        if size > 0 {
            checked.aligned::<Context>(at, "pChildren", children);
            let is_within = contains(&checked.section(SECTION), &(children..children + size));
            checked.ensure(is_within, at, || "pChildren is not within section Context".into());
        }
        checked.ensure(node.id != 0, at, || "ctxId 0 is of the implicit context".into());
        let place = u32::try_from(meta.nodes.len()).ok()?;
        if node.id != 0 {
            let before = meta.by_id.insert(node.id, place);
            checked.ensure(before.is_none(), at, || format!("two contexts have the ctxId {}", node.id));
        }
        meta.largest_id = meta.largest_id.max(node.id);
        meta.nodes.push(CheckedNode { parent: path.last().copied(), ..node });
        path.push(place);
    }
    if dangling > 0 {
        checked.note(offset, format!("{dangling} contexts without children have a pChildren other than 0"));
    }
    Some(())
}

fn check_context(
    checked: &mut Checked<'_, '_>,
    lists: &Lists,
    at: u64,
    context: &Context,
    Lexical { function, source, point }: Lexical,
) {
    let id = context.id;
    checked.ensure(function.is_none_or(|function| lists.functions.has(function)), at, || {
        format!("pFunction of context {id} is not in pFunctions")
    });
    checked.ensure(source.is_none_or(|(file, _)| lists.files.has(file)), at, || {
        format!("pFile of context {id} is not in pFiles")
    });
    checked.ensure(point.is_none_or(|(module, _)| lists.modules.has(module)), at, || {
        format!("pModule of context {id} is not in pModules")
    });
    let needed = match context.lexical_type {
        lexical::LOOP | lexical::LINE => has::SOURCE,
        lexical::INSTRUCTION => has::POINT,
        lexical::FUNCTION => 0,
        unknown => {
            checked.note(at, format!("context {id} has the unknown lexicalType {unknown}"));
            0
        }
    };
    checked.ensure(context.flags & needed == needed, at, || {
        format!("context {id} of lexicalType {} has no position", context.lexical_type)
    });
    if context.relation > relation::INLINED {
        checked.note(at, format!("context {id} has the unknown relation {}", context.relation));
    }
}
