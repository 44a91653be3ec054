"""Pages: fetch and authorise, call one step function, render."""
