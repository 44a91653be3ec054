"""System checks: what must hold on this machine before work starts."""
