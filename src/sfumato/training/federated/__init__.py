"""The same plans, with the sentences left where they are: a Flower app.  Needs the extra ``federated``.

**Trust.**  The server adds the noise.  It sees each client's clipped sum, so that users trust the server as they would
trust one machine that holds all sentences; the promise is towards everybody who sees the models.  A client trusts the
server to add the noise, and the server trusts clients to clip: a client that lies can spoil the model, and the
sentences of its own users, but not the promise made to others.

**Who takes part.**  Each client draws the coins of its own sentences (or users) from a key that never leaves it.  A
client that drops out, or whose reply is not finite or too large, counts as zero.  That keeps to the accounting as long
as dropping out does not depend on the words: a gradient that is not finite already counts as zero in the client, one
sentence at a time.

**Entities.**  An entity may be mentioned at several clients.  Its limit is shared out by a public rule
(:func:`~sfumato.training.federated.limits.share_of_entity`), so that all clients together keep to it without talking
to each other.
"""

from sfumato.training.extras import flower as _flower

_flower()
