module {{name}}.plugin

go 1.24

// The SDK stands in the project: a build needs no network.
require perpend v0.0.0

replace perpend => ./perpend/go
