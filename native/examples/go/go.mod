module example/list

go 1.23
