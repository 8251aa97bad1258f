struct rs_socket;
static inline int rs_datagram_new(int domain, struct rs_socket **s) { (void)domain; (void)s; return -95; }
