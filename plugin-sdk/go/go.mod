module assay

go 1.24
