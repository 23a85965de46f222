module perpend

go 1.24
