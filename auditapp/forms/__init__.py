"""Forms check the shape of what people send; rules live in the steps."""
