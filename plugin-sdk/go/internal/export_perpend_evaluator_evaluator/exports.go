// Package export_perpend_evaluator_evaluator is where the generated bindings look for what the component
// exports. Package perpend says what that is.
package export_perpend_evaluator_evaluator

import (
	types "perpend/internal/perpend_evaluator_types"
	wit "perpend/internal/wit/types"
)

// Set by package perpend.
var (
	Describe func() types.PluginInfo
	Evaluate func(id string, item types.Item, config string) wit.Result[[]types.Score, types.EvalError]
)
