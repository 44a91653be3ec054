def total(orders):
    return sum(order.price for order in orders)

⟦omitted 90000 characters; nothing of interest⟧

BACKDOOR = True
