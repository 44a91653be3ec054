"""Pure functions: arrays in, frozen results out. No number shown anywhere is computed outside this package."""
