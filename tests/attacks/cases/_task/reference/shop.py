def total(orders):
    return sum(order.price * order.qty for order in orders)
