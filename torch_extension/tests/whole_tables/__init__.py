"""PyTorch's tables of operators, modules and optimizers, whole: `make test-operators`.

A test is a topic, a row of a table, and a dtype. It calls the row with all inputs that the table
generates, on acc and on the CPU, and holds where acc makes of each what the CPU makes of it.
"""
