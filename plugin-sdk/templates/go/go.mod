module {{name}}.plugin

go 1.24

// The SDK is part of the project: a build needs no network access.
require perpend v0.0.0

replace perpend => ./perpend/go
