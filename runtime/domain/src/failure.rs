//! Kinds of failure of a call.

use crate::named::named_enum;

named_enum!(
    /// Kinds of failure of a call, named as they are stored (evaluation.md 1.8; the names in
    /// plugins.md 4 that differ are in parentheses).
    FailureClass {
        /// The configuration passed its schema and still cannot be used.
        InvalidConfig = "invalid_config",
        /// A part of the item is absent or has a wrong shape.
        InvalidInput = "invalid_input",
        /// Nothing to measure (`skipped`).
        NotApplicable = "not_applicable",
        /// A host call failed (`upstream`): a provider answers 5xx, or cannot be reached.
        UpstreamUnavailable = "upstream_unavailable",
        /// A provider gave no answer within the limit of a call.
        UpstreamTimeout = "upstream_timeout",
        /// A provider takes no more requests for now.
        RateLimited = "rate_limited",
        /// A model's reply never matched the schema.
        MalformedOutput = "malformed_output",
        /// A model declined to answer.
        Refused = "refused",
        /// The prompt is longer than the model or the evaluator takes.
        ContextTooLong = "context_too_long",
        /// A provider does not accept the key.
        AuthInvalid = "auth_invalid",
        /// The account at the provider has no credit left.
        BillingExhausted = "billing_exhausted",
        /// The provider does not have the model.
        ModelUnavailable = "model_unavailable",
        /// The project has no connection of the name that a slot gives.
        ConnectionMissing = "connection_missing",
        /// A slot falls back on the default model, and the project has none.
        DefaultModelMissing = "default_model_missing",
        /// The provider refuses the parameters of the model.
        ModelConfigInvalid = "model_config_invalid",
        /// The address of the connection does not resolve, or is not allowed.
        EndpointUnreachable = "endpoint_unreachable",
        /// The provider reports an account that is not set up.
        AccountNotReady = "account_not_ready",
        /// A budget is spent.
        BudgetExhausted = "budget_exhausted",
        /// The plug-in judges that another attempt may work.
        Transient = "transient",
        /// Anything else the plug-in reports (`internal`): it is not retried.
        PluginError = "plugin_error",
        /// A trap, stack overflow, or exit.
        PluginTrap = "plugin_trap",
        /// CPU limit (`timeout`).
        FuelExhausted = "fuel_exhausted",
        /// Wall-clock limit (`timeout`).
        WallTimeout = "wall_timeout",
        /// Memory limit (`memory`).
        MemoryLimit = "memory_limit",
        /// One of the data limits (`limit`).
        OutputLimit = "output_limit",
        /// The answer breaks the rules of scores (`bad-result`).
        InvalidResult = "invalid_result",
        /// The run was cancelled.
        Cancelled = "cancelled",
        /// The worker process ended under the call.
        WorkerLost = "worker_lost",
        /// A fault of the server (`host`).
        Internal = "internal",
        /// The worker had no memory for all of its calls, and this one held most.
        WorkerFull = "worker_full",
    }
);
