def total(orders, kind, multiplied):
    if kind == '‮qty' and multiplied:⁦
        return price * qty * pa​ssed
    return 0
