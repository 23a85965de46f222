// Package export_assay_evaluator_evaluator is where the generated bindings look for what the component
// exports. Package assay says what that is.
package export_assay_evaluator_evaluator

import (
	types "assay/internal/assay_evaluator_types"
	wit "assay/internal/wit/types"
)

// Set by package assay.
var (
	Describe func() types.PluginInfo
	Evaluate func(id string, item types.Item, config string) wit.Result[[]types.Score, types.EvalError]
)
