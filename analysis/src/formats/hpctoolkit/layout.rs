//! The records of the database files, one table each, with the sizes of HPCToolkit's FORMATS.md.
//!
//! Offsets are computed: a field is aligned to its size, but at most to the alignment of its
//! record. Numbers are little-endian. A pointer is a 64-bit offset in the same file.

/// A number in a record.
pub(super) trait Scalar: Copy {
    /// Returns the number at the beginning of `bytes`.
    ///
    /// # Panics
    /// If there are fewer bytes.
    fn decode(bytes: &[u8]) -> Self;
    /// Writes the number to the beginning of `bytes`.
    ///
    /// # Panics
    /// If there are fewer bytes.
    fn encode(self, bytes: &mut [u8]);
}

macro_rules! scalars {
    ($($type:ident)*) => {$(
        impl Scalar for $type {
            fn decode(bytes: &[u8]) -> Self {
                let (bytes, _) = bytes.split_first_chunk().expect("a record has all bytes of its fields");
                Self::from_le_bytes(*bytes)
            }

            fn encode(self, bytes: &mut [u8]) {
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

scalars! { u8 u16 u32 u64 f64 }

/// A structure of the format, with a fixed size.
pub(super) trait Record: Copy + Default {
    /// Alignment of its offset in a file, in bytes.
    const ALIGNMENT: usize;
    /// Number of bytes up to the end of the last field.
    const END: usize;
    /// Distance of two records in an array, in bytes; files may have a larger one.
    const SIZE: usize = Self::END.next_multiple_of(Self::ALIGNMENT);

    /// Returns the record at the beginning of `bytes`.
    ///
    /// # Panics
    /// If there are fewer than [`END`](Self::END) bytes.
    fn decode(bytes: &[u8]) -> Self;

    /// Writes the record to the beginning of `bytes`; gaps are unchanged.
    ///
    /// # Panics
    /// If there are fewer than [`END`](Self::END) bytes.
    fn encode(&self, bytes: &mut [u8]);
}

/// Returns the offset of a field after a field that ends at `end`.
const fn field_offset(end: usize, size: usize, alignment: usize) -> usize {
    end.next_multiple_of(if size < alignment { size } else { alignment })
}

macro_rules! records {
    ($($(#[$doc:meta])* $name:ident, aligned to $alignment:literal { $($field:ident: $type:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub(super) struct $name { $(pub(super) $field: $type,)* }

        impl Record for $name {
            const ALIGNMENT: usize = $alignment;
            const END: usize = {
                let end = 0;
                $(let end = field_offset(end, size_of::<$type>(), $alignment) + size_of::<$type>();)*
                end
            };

            fn decode(bytes: &[u8]) -> Self {
                let end = 0;
                $(
                    let at = field_offset(end, size_of::<$type>(), $alignment);
                    let end = at + size_of::<$type>();
                    let $field = $type::decode(&bytes[at..end]);
                )*
                let _ = end;
                Self { $($field,)* }
            }

            fn encode(&self, bytes: &mut [u8]) {
                let end = 0;
                $(
                    let at = field_offset(end, size_of::<$type>(), $alignment);
                    let end = at + size_of::<$type>();
                    self.$field.encode(&mut bytes[at..end]);
                )*
                let _ = end;
            }
        }

        #[cfg(test)]
        impl $name {
            /// Name, END and SIZE.
            const SIZES: (&'static str, usize, usize) =
                (stringify!($name), <Self as Record>::END, <Self as Record>::SIZE);
        }
    )*};
}

records! {
    /// Size and pointer of a section, in the header of a file.
    Section, aligned to 8 { size: u64, start: u64, }

    // meta.db
    /// Header of the section General.
    General, aligned to 8 { title: u64, description: u64, }
    /// Header of the section IdNames.
    IdNames, aligned to 8 { names: u64, count: u8, }
    /// Header of the section Metrics.
    Metrics, aligned to 8 {
        metrics: u64, metric_count: u32, metric_size: u8, scope_instance_size: u8, summary_size: u8,
        scopes: u64, scope_count: u16, scope_size: u8,
    }
    /// {MD}: a metric.
    Metric, aligned to 8 {
        name: u64, scope_instances: u64, summaries: u64, scope_instance_count: u16, summary_count: u16,
    }
    /// {PSI}: values of a metric by a scope.
    ScopeInstance, aligned to 8 { scope: u64, metric_id: u16, }
    /// {SS}: a statistic over threads.
    Summary, aligned to 8 { scope: u64, formula: u64, combine: u8, metric_id: u16, }
    /// {PS}: which descendants a context's value includes.
    Scope, aligned to 8 { name: u64, kind: u8, propagation_index: u8, }
    /// Header of the section Context.
    Contexts, aligned to 8 { entry_points: u64, count: u16, size: u8, }
    /// {Entry}: the outermost contexts.
    EntryPoint, aligned to 8 {
        children_size: u64, children: u64, id: u32, kind: u16, name: u64,
    }
    /// {Ctx}, without its variable part.
    Context, aligned to 8 {
        children_size: u64, children: u64, id: u32, flags: u8, relation: u8, lexical_type: u8,
        word_count: u8, propagation: u16,
    }
    /// Header of the sections Modules, Files and Functions.
    List, aligned to 8 { start: u64, count: u32, size: u16, }
    /// A load module.
    Module, aligned to 8 { flags: u32, path: u64, }
    /// A source file.
    SourceFile, aligned to 8 { flags: u32, path: u64, }
    /// A function.
    Function, aligned to 8 { name: u64, module: u64, offset: u64, file: u64, line: u32, flags: u32, }

    // profile.db
    /// Header of the section ProfileInfos.
    Profiles, aligned to 8 { profiles: u64, count: u32, size: u8, }
    /// {PI}: the values of a thread, or statistics of all threads.
    ThreadProfile, aligned to 8 {
        value_count: u64, values: u64, context_count: u32, contexts: u64, id_tuple: u64, flags: u32,
    }
    /// {Val} of profile.db.
    MetricValue, aligned to 2 { metric_id: u16, value: f64, }
    /// {Idx} of profile.db.
    ContextIndex, aligned to 4 { context_id: u32, start: u64, }
    /// The beginning of an identifier tuple.
    IdTuple, aligned to 8 { count: u16, }
    /// {Id}: an identifier of a tuple.
    Identifier, aligned to 8 { kind: u8, flags: u16, logical: u32, physical: u64, }

    // cct.db
    /// Header of the section CtxInfos.
    ContextInfos, aligned to 8 { contexts: u64, count: u32, size: u8, }
    /// {CI}: the values of a context.
    ContextInfo, aligned to 8 { value_count: u64, values: u64, metric_count: u16, metrics: u64, }
    /// {Val} of cct.db.
    ThreadValue, aligned to 4 { profile: u32, value: f64, }
    /// {Idx} of cct.db.
    MetricIndex, aligned to 2 { metric_id: u16, start: u64, }

    // trace.db
    /// Header of the section CtxTraces.
    Traces, aligned to 8 { traces: u64, count: u32, size: u8, first_nanos: u64, last_nanos: u64, }
    /// {CTH}: the trace of a thread.
    Trace, aligned to 8 { profile: u32, start: u64, end: u64, }
    /// {Elem}: a sample of a trace.
    TraceSample, aligned to 4 { nanos: u64, context_id: u32, }
}

/// A database file: its name, its mark in the header and at its end, and its number of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileKind {
    pub(super) name: &'static str,
    pub(super) format: &'static [u8; 4],
    pub(super) footer: &'static [u8; 8],
    pub(super) sections: &'static [&'static str],
}

pub(super) const META: FileKind = FileKind {
    name: "meta.db",
    format: b"meta",
    footer: b"_meta.db",
    sections: &["General", "IdNames", "Metrics", "Context", "Strings", "Modules", "Files", "Functions"],
};
pub(super) const PROFILE: FileKind = FileKind {
    name: "profile.db",
    format: b"prof",
    footer: b"_prof.db",
    sections: &["ProfileInfos", "IdTuples"],
};
pub(super) const CONTEXT: FileKind =
    FileKind { name: "cct.db", format: b"ctxt", footer: b"__ctx.db", sections: &["CtxInfos"] };
pub(super) const TRACE: FileKind =
    FileKind { name: "trace.db", format: b"trce", footer: b"trace.db", sections: &["CtxTraces"] };

/// The beginning of each file.
pub(super) const MAGIC: &[u8; 10] = b"HPCTOOLKIT";
pub(super) const MAJOR_VERSION: u8 = 4;
/// Offset of the first section's size and pointer.
pub(super) const FIRST_SECTION: usize = 0x10;

/// [`Scope::kind`].
pub(super) mod scope {
    pub(crate) const CUSTOM: u8 = 0;
    pub(crate) const POINT: u8 = 1;
    pub(crate) const EXECUTION: u8 = 2;
    pub(crate) const TRANSITIVE: u8 = 3;
}

/// [`Context::flags`]: which parts [`Context`] has after it.
pub(super) mod has {
    pub(crate) const FUNCTION: u8 = 1;
    pub(crate) const SOURCE: u8 = 2;
    pub(crate) const POINT: u8 = 4;
}

/// [`Context::relation`] to its parent; unknown ones are calls.
pub(super) mod relation {
    pub(crate) const LEXICAL: u8 = 0;
    pub(crate) const CALL: u8 = 1;
    pub(crate) const INLINED: u8 = 2;
}

/// [`Context::lexical_type`].
pub(super) mod lexical {
    pub(crate) const FUNCTION: u8 = 0;
    pub(crate) const LOOP: u8 = 1;
    pub(crate) const LINE: u8 = 2;
    pub(crate) const INSTRUCTION: u8 = 3;
}

/// [`ThreadProfile::flags`]: statistics of several threads.
pub(super) const IS_SUMMARY: u32 = 1;
/// [`SourceFile::flags`]: the database contains a copy, and the path is relative to it.
pub(super) const IS_COPIED: u32 = 1;
/// [`Identifier::flags`]: the physical ID is valid.
pub(super) const IS_PHYSICAL: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes from the END rows of FORMATS.md, and the sizes that section headers of files have.
    #[test]
    fn records_have_the_documented_sizes() {
        let ends = [
            (General::SIZES, 0x10),
            (IdNames::SIZES, 0x09),
            (Metrics::SIZES, 0x1b),
            (Contexts::SIZES, 0x0b),
            (List::SIZES, 0x0e),
            (Profiles::SIZES, 0x0d),
            (ContextInfos::SIZES, 0x0d),
            (Traces::SIZES, 0x20),
        ];
        for ((name, end, _), documented) in ends {
            assert_eq!(end, documented, "{name}");
        }
        let sizes = [
            (Metric::SIZES, 0x20),
            (ScopeInstance::SIZES, 0x10),
            (Summary::SIZES, 0x18),
            (Scope::SIZES, 0x10),
            (EntryPoint::SIZES, 0x20),
            (Context::SIZES, 0x20),
            (Module::SIZES, 0x10),
            (SourceFile::SIZES, 0x10),
            (Function::SIZES, 0x28),
            (ThreadProfile::SIZES, 0x30),
            (MetricValue::SIZES, 0x0a),
            (ContextIndex::SIZES, 0x0c),
            (IdTuple::SIZES, 0x08),
            (Identifier::SIZES, 0x10),
            (ContextInfo::SIZES, 0x20),
            (ThreadValue::SIZES, 0x0c),
            (MetricIndex::SIZES, 0x0a),
            (Trace::SIZES, 0x18),
            (TraceSample::SIZES, 0x0c),
            (Section::SIZES, 0x10),
        ];
        for ((name, _, size), documented) in sizes {
            assert_eq!(size, documented, "{name}");
        }
    }

    #[test]
    fn records_are_read_as_they_are_written() {
        let summary = Summary { scope: 1 << 40, formula: 2, combine: 3, metric_id: 0x405 };
        let mut bytes = [0xff; Summary::SIZE];
        summary.encode(&mut bytes);
        assert_eq!(bytes[0x10..0x14], [3, 0xff, 5, 4], "combine, a gap, and the metric");
        assert_eq!(Summary::decode(&bytes), summary);
        let value = MetricValue { metric_id: 7, value: 0.25 };
        let mut bytes = [0; MetricValue::SIZE];
        value.encode(&mut bytes);
        assert_eq!((MetricValue::decode(&bytes), &bytes[2..]), (value, &0.25_f64.to_le_bytes()[..]));
    }
}
