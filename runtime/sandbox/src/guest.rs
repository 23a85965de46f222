//! Exported functions of a component, looked up once and called in each instance.

use std::sync::atomic::{AtomicBool, Ordering};

use wasmtime::component::{
    Component, ComponentExportIndex, ComponentNamedList, ComponentType, Instance, Lift, Lower,
    TypedFunc,
};
use wasmtime::{Result, Store, format_err};

use crate::bindings::types::{EvalError, Item, Score};
use crate::state::State;

/// Arguments and results of `evaluate`.
type Evaluate<'c> = TypedFunc<(&'c str, &'c Item, &'c str), (Result<Vec<Score>, EvalError>,)>;
/// Arguments and results of `check-config`.
type CheckConfig<'c> = TypedFunc<(&'c str, &'c str), (Vec<ConfigProblem>,)>;

/// A problem that `check-config` found.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct ConfigProblem {
    pub(crate) pointer: String,
    pub(crate) message: String,
}

/// Indexes of the exports that the host calls.
pub(crate) struct Exports {
    evaluate: Export,
    check_config: Option<Export>,
}

struct Export {
    index: ComponentExportIndex,
    /// Whether the type of the function was checked. The check is slower than a small call.
    is_checked: AtomicBool,
}

impl Exports {
    pub(crate) fn new(component: &Component) -> Result<Self> {
        let find = |interface: &str, function: &str| {
            let instance = component.get_export_index(None, interface)?;
            let index = component.get_export_index(Some(&instance), function)?;
            Some(Export { index, is_checked: AtomicBool::new(false) })
        };
        let evaluate = find("perpend:evaluator/evaluator@1.0.0", "evaluate");
        Ok(Self {
            evaluate: evaluate.ok_or_else(|| format_err!("no function `evaluate`"))?,
            check_config: find("perpend:evaluator/config-check@1.0.0", "check-config"),
        })
    }

    pub(crate) fn evaluate<'c>(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> Result<Evaluate<'c>> {
        self.evaluate.typed(store, instance)
    }

    /// Whether [`Self::check_config`] returns a function.
    pub(crate) const fn checks_config(&self) -> bool {
        self.check_config.is_some()
    }

    pub(crate) fn check_config<'c>(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> Result<Option<CheckConfig<'c>>> {
        let export = self.check_config.as_ref();
        export.map(|export| export.typed(store, instance)).transpose()
    }
}

impl Export {
    /// Each export is used with a single type, which [`Exports`] declares.
    fn typed<P, R>(&self, store: &mut Store<State>, instance: &Instance) -> Result<TypedFunc<P, R>>
    where
        P: ComponentNamedList + Lower,
        R: ComponentNamedList + Lift,
    {
        let function = instance
            .get_func(&mut *store, self.index)
            .ok_or_else(|| format_err!("an exported function is missing"))?;
        if !self.is_checked.load(Ordering::Acquire) {
            function.typed::<P, R>(&*store)?;
            self.is_checked.store(true, Ordering::Release);
        }
        #[expect(
            unsafe_code,
            reason = "the same export of the same component had this type when it was checked above \
                      for an earlier instance, and the type of an export belongs to the component: it \
                      is the same in each of its instances. P and R are the same at every call, since \
                      the two callers in `Exports` each name one export and one type"
        )]
        let function = unsafe { TypedFunc::new_unchecked(function) };
        Ok(function)
    }
}
