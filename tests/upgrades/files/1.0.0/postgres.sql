--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: hookrow_dispatches; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hookrow_dispatches (
    id bigint NOT NULL,
    provider_message_id character varying(255),
    subscriber_id bigint NOT NULL,
    list_id bigint,
    delivered_at timestamp with time zone,
    opened_at timestamp with time zone,
    suppressed_at timestamp with time zone,
    suppression_reason text,
    suppression_changed_at timestamp with time zone,
    first_opened_at timestamp with time zone,
    clicked_at timestamp with time zone,
    bounced_at timestamp with time zone,
    bounce_type character varying(64),
    complained_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='85');


--
-- Name: hookrow_dispatches_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.hookrow_dispatches_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: hookrow_dispatches_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.hookrow_dispatches_id_seq OWNED BY public.hookrow_dispatches.id;


--
-- Name: hookrow_hours; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hookrow_hours (
    hour timestamp with time zone NOT NULL,
    record_type character varying(64) NOT NULL,
    reason character varying(64) NOT NULL,
    first_outcome character varying(32) NOT NULL,
    entry character varying(64) NOT NULL,
    entries bigint NOT NULL,
    recovered bigint DEFAULT 0 NOT NULL
);


--
-- Name: hookrow_lists; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hookrow_lists (
    id bigint NOT NULL,
    name character varying(255) NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: hookrow_lists_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.hookrow_lists_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: hookrow_lists_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.hookrow_lists_id_seq OWNED BY public.hookrow_lists.id;


--
-- Name: hookrow_meta; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hookrow_meta (
    name character varying(64) NOT NULL,
    value text NOT NULL
);


--
-- Name: hookrow_migrations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hookrow_migrations (
    revision character varying(32) NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: hookrow_notifications; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hookrow_notifications (
    id bigint NOT NULL,
    fingerprint bytea NOT NULL,
    record_type character varying(64),
    message_id character varying(255),
    recipient character varying(320),
    occurred_at timestamp with time zone,
    outcome character varying(32) NOT NULL,
    first_outcome character varying(32) NOT NULL,
    status smallint NOT NULL,
    attempts bigint NOT NULL,
    retries bigint DEFAULT 0 NOT NULL,
    received_at timestamp with time zone NOT NULL,
    last_received_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    retry_at timestamp with time zone,
    reason character varying(64),
    trace_id character varying(255),
    provider character varying(32),
    entry character varying(64),
    source character varying(16) NOT NULL,
    recovery_counted boolean,
    change_number bigint,
    body text
);


--
-- Name: hookrow_notifications_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.hookrow_notifications_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: hookrow_notifications_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.hookrow_notifications_id_seq OWNED BY public.hookrow_notifications.id;


--
-- Name: hookrow_subscribers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hookrow_subscribers (
    id bigint NOT NULL,
    email character varying(320) NOT NULL,
    suppressed_at timestamp with time zone,
    suppression_reason text,
    suppression_changed_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: hookrow_subscribers_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.hookrow_subscribers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: hookrow_subscribers_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.hookrow_subscribers_id_seq OWNED BY public.hookrow_subscribers.id;


--
-- Name: hookrow_subscriptions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hookrow_subscriptions (
    id bigint NOT NULL,
    list_id bigint NOT NULL,
    subscriber_id bigint NOT NULL,
    suppressed_at timestamp with time zone,
    suppression_reason text,
    suppression_changed_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: hookrow_subscriptions_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.hookrow_subscriptions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: hookrow_subscriptions_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.hookrow_subscriptions_id_seq OWNED BY public.hookrow_subscriptions.id;


--
-- Name: hookrow_suppression_changes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hookrow_suppression_changes (
    role character varying(32) NOT NULL,
    row_key text NOT NULL,
    changed_at timestamp with time zone NOT NULL
);


--
-- Name: hookrow_dispatches id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_dispatches ALTER COLUMN id SET DEFAULT nextval('public.hookrow_dispatches_id_seq'::regclass);


--
-- Name: hookrow_lists id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_lists ALTER COLUMN id SET DEFAULT nextval('public.hookrow_lists_id_seq'::regclass);


--
-- Name: hookrow_notifications id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_notifications ALTER COLUMN id SET DEFAULT nextval('public.hookrow_notifications_id_seq'::regclass);


--
-- Name: hookrow_subscribers id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_subscribers ALTER COLUMN id SET DEFAULT nextval('public.hookrow_subscribers_id_seq'::regclass);


--
-- Name: hookrow_subscriptions id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_subscriptions ALTER COLUMN id SET DEFAULT nextval('public.hookrow_subscriptions_id_seq'::regclass);


--
-- Data for Name: hookrow_dispatches; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hookrow_dispatches VALUES (5, '5a2c6e90-d841-47b3-96ef-30bd8f17c805', 5, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_dispatches VALUES (7, NULL, 2, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_dispatches VALUES (8, NULL, 1, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_dispatches VALUES (1, '6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901', 1, 1, '2026-11-29 13:06:41.025935+00', '2026-11-29 14:06:41.025935+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_dispatches VALUES (6, 'e8f40b27-6c93-4e1d-a5d8-b9127c64f306', 6, 1, NULL, NULL, NULL, NULL, '2026-11-29 14:06:41.025935+00', NULL, NULL, NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_dispatches VALUES (4, '91b8e3d5-07fc-4a62-bc49-e52f6d30a704', 4, 1, '2026-11-29 14:06:41.025935+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_dispatches VALUES (2, '0d9c7b36-52ae-4f0b-8d31-7a6e94c1b802', 2, 1, NULL, NULL, '2026-11-29 14:06:41.655861+00', 'Asked by phone', '2026-11-29 14:06:41.655861+00', NULL, NULL, NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_dispatches VALUES (3, 'c47e2f18-9b06-4d5a-b3f2-18d05a7ce603', 3, 1, NULL, '2026-11-29 14:06:41.025935+00', '2026-11-29 14:06:41.025935+00', 'HardBounce', '2026-11-29 14:06:41.025935+00', NULL, NULL, NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');


--
-- Data for Name: hookrow_hours; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hookrow_hours VALUES ('2026-11-29 14:00:00+00', '', '', 'wrong secret', '', 3, 0);
INSERT INTO public.hookrow_hours VALUES ('2026-11-29 14:00:00+00', 'Delivery', '', 'dispatch_not_found', '', 1, 0);
INSERT INTO public.hookrow_hours VALUES ('2026-11-29 14:00:00+00', 'Delivery', '', 'recorded', '', 2, 0);
INSERT INTO public.hookrow_hours VALUES ('2026-11-29 14:00:00+00', 'Open', '', 'recipient_mismatch', '', 1, 0);
INSERT INTO public.hookrow_hours VALUES ('2026-11-29 14:00:00+00', 'Open', '', 'recorded', '', 1, 0);
INSERT INTO public.hookrow_hours VALUES ('2026-11-29 14:00:00+00', 'Open', '', 'recorded', 'shop', 1, 0);
INSERT INTO public.hookrow_hours VALUES ('2026-11-29 14:00:00+00', 'SubscriptionChange', '', 'recorded', '', 2, 0);
INSERT INTO public.hookrow_hours VALUES ('2026-11-29 14:00:00+00', 'SubscriptionChange', 'HardBounce', 'recorded', '', 1, 0);
INSERT INTO public.hookrow_hours VALUES ('2026-11-29 14:00:00+00', 'SubscriptionChange', 'other', 'recorded', '', 2, 0);


--
-- Data for Name: hookrow_lists; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hookrow_lists VALUES (1, 'news', '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_lists VALUES (2, 'offers', '2026-11-29 14:06:40.91817+00');


--
-- Data for Name: hookrow_meta; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hookrow_meta VALUES ('mapping', '[{"subscribers":{"table":"hookrow_subscribers"},"dispatches":{"table":"hookrow_dispatches"},"subscriptions":{"table":"hookrow_subscriptions"}}]');
INSERT INTO public.hookrow_meta VALUES ('changes_pruned', '0');
INSERT INTO public.hookrow_meta VALUES ('changes_last', '12');
INSERT INTO public.hookrow_meta VALUES ('hours_ceiling', '12 1795961200.206078');
INSERT INTO public.hookrow_meta VALUES ('hours_watermark', '12');


--
-- Data for Name: hookrow_migrations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hookrow_migrations VALUES ('0001', '2026-11-29 14:06:40.654054+00');
INSERT INTO public.hookrow_migrations VALUES ('0002', '2026-11-29 14:06:40.723365+00');


--
-- Data for Name: hookrow_notifications; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hookrow_notifications VALUES (7, '\x6b0c317199a77d2980494acf1ed7f55a', 'Open', '6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901', 'bea+news@example.org', '2026-11-29 14:06:41.025935+00', 'recipient_mismatch', 'recipient_mismatch', 400, 1, 0, '2026-11-29 14:06:41.620518+00', '2026-11-29 14:06:41.620518+00', '2026-11-29 14:06:41.624364+00', '2026-11-29 14:07:41.62821+00', NULL, NULL, 'postmark', NULL, 'live', NULL, NULL, '{"RecordType":"Open","MessageStream":"broadcast","MessageID":"6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901","Recipient":"bea+news@example.org","Tag":"newsletter","Metadata":{},"ServerID":23,"FirstOpen":true,"ReadSeconds":5,"ReceivedAt":"2026-11-29T14:06:41.025935Z","Platform":"Desktop","UserAgent":"Mozilla/5.0","Client":{},"OS":{},"Geo":{}}');
INSERT INTO public.hookrow_notifications VALUES (8, '\x6b0c31718d77250dd9a9fecc6c14a6c2', 'Delivery', 'b1f6c2aa-30e7-4d0c-9f52-6f1f0d7e8a07', 'ada@example.com', '2026-11-29 14:06:41.025935+00', 'dispatch_not_found', 'dispatch_not_found', 404, 1, 0, '2026-11-29 14:06:41.627344+00', '2026-11-29 14:06:41.627344+00', '2026-11-29 14:06:41.636068+00', '2026-11-29 14:07:41.644792+00', NULL, NULL, 'postmark', NULL, 'live', NULL, NULL, '{"RecordType":"Delivery","MessageStream":"broadcast","MessageID":"b1f6c2aa-30e7-4d0c-9f52-6f1f0d7e8a07","Recipient":"ada@example.com","Tag":"newsletter","Metadata":{},"ServerID":23,"DeliveredAt":"2026-11-29T14:06:41.025935Z","Details":"smtp;250 2.0.0 OK"}');
INSERT INTO public.hookrow_notifications VALUES (1, '\x6b0c236195f7cc6e844080fe0178d9f1', 'Delivery', '6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901', 'ada@example.com', '2026-11-29 13:06:41.025935+00', 'recorded', 'recorded', 200, 2, 0, '2026-11-29 14:06:41.031348+00', '2026-11-29 14:06:41.565876+00', '2026-11-29 14:06:41.561964+00', NULL, NULL, NULL, 'postmark', NULL, 'live', NULL, 1, '{"RecordType":"Delivery","MessageStream":"broadcast","MessageID":"6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901","Recipient":"ada@example.com","Tag":"newsletter","Metadata":{},"ServerID":23,"DeliveredAt":"2026-11-29T13:06:41.025935Z","Details":"smtp;250 2.0.0 OK"}');
INSERT INTO public.hookrow_notifications VALUES (3, '\x6b0c31712e0c004a27424af46e2794e5', 'Open', '6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901', 'ada@example.com', '2026-11-29 14:06:41.025935+00', 'recorded', 'recorded', 200, 1, 0, '2026-11-29 14:06:41.578117+00', '2026-11-29 14:06:41.578117+00', '2026-11-29 14:06:41.578957+00', NULL, NULL, NULL, 'postmark', NULL, 'live', NULL, 3, '{"RecordType":"Open","MessageStream":"broadcast","MessageID":"6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901","Recipient":"ada@example.com","Tag":"newsletter","Metadata":{},"ServerID":23,"FirstOpen":true,"ReadSeconds":5,"ReceivedAt":"2026-11-29T14:06:41.025935Z","Platform":"Desktop","UserAgent":"Mozilla/5.0","Client":{},"OS":{},"Geo":{}}');
INSERT INTO public.hookrow_notifications VALUES (4, '\x6b0c3171615b95ea32e5fd3baf6e1d65', 'SubscriptionChange', 'c47e2f18-9b06-4d5a-b3f2-18d05a7ce603', 'zoë.müller@example.net', '2026-11-29 14:06:41.025935+00', 'recorded', 'recorded', 200, 1, 0, '2026-11-29 14:06:41.583896+00', '2026-11-29 14:06:41.583896+00', '2026-11-29 14:06:41.585179+00', NULL, 'HardBounce', NULL, 'postmark', NULL, 'live', NULL, 4, '{"RecordType":"SubscriptionChange","MessageStream":"broadcast","MessageID":"c47e2f18-9b06-4d5a-b3f2-18d05a7ce603","Recipient":"zoë.müller@example.net","Tag":null,"Metadata":{},"ServerID":23,"ChangedAt":"2026-11-29T14:06:41.025935Z","Origin":"Recipient","SuppressSending":true,"SuppressionReason":"HardBounce"}');
INSERT INTO public.hookrow_notifications VALUES (5, '\x6b0c317181ebcfadb9a47290d42c7bae', 'SubscriptionChange', 'e8f40b27-6c93-4e1d-a5d8-b9127c64f306', 'gil@example.com', '2026-11-29 14:06:41.025935+00', 'recorded', 'recorded', 200, 1, 0, '2026-11-29 14:06:41.607537+00', '2026-11-29 14:06:41.607537+00', '2026-11-29 14:06:41.608806+00', NULL, NULL, NULL, 'postmark', NULL, 'live', NULL, 5, '{"RecordType":"SubscriptionChange","MessageStream":"broadcast","MessageID":"e8f40b27-6c93-4e1d-a5d8-b9127c64f306","Recipient":"gil@example.com","Tag":null,"Metadata":{},"ServerID":23,"ChangedAt":"2026-11-29T14:06:41.025935Z","Origin":"Customer","SuppressSending":false,"SuppressionReason":null}');
INSERT INTO public.hookrow_notifications VALUES (9, '\x6b0c31713f0fc9cb7e2b206c75d474ea', 'SubscriptionChange', NULL, 'dora@xn--exmple-cua.example', '2026-11-29 14:06:41.643498+00', 'recorded', 'recorded', 200, 1, 0, '2026-11-29 14:06:41.643498+00', '2026-11-29 14:06:41.643498+00', '2026-11-29 14:06:41.647396+00', NULL, 'Asked by phone', NULL, NULL, NULL, 'live', NULL, 9, '{"RecordType":"SubscriptionChange","Recipient":"dora@xn--exmple-cua.example","MessageID":null,"ChangedAt":"2026-11-29T14:06:41.643498+00:00","Origin":"Host","ChangedBy":"ada","Note":"Asked by phone","SuppressSending":true,"SuppressionReason":"Asked by phone"}');
INSERT INTO public.hookrow_notifications VALUES (10, '\x6b0c31714f7f110df3c515d8aedf9e5e', 'SubscriptionChange', '0d9c7b36-52ae-4f0b-8d31-7a6e94c1b802', 'bea+news@example.org', '2026-11-29 14:06:41.655861+00', 'recorded', 'recorded', 200, 1, 0, '2026-11-29 14:06:41.655861+00', '2026-11-29 14:06:41.655861+00', '2026-11-29 14:06:41.659324+00', NULL, 'Asked by phone', NULL, NULL, NULL, 'live', NULL, 10, '{"RecordType":"SubscriptionChange","Recipient":"bea+news@example.org","MessageID":"0d9c7b36-52ae-4f0b-8d31-7a6e94c1b802","ChangedAt":"2026-11-29T14:06:41.655861+00:00","Origin":"Host","ChangedBy":"ada","Note":"Asked by phone","SuppressSending":true,"SuppressionReason":"Asked by phone"}');
INSERT INTO public.hookrow_notifications VALUES (11, '\x6b0c31712ac51d3f1ad27a5de292ccaa', 'SubscriptionChange', NULL, 'bea+news@example.org', '2026-11-29 14:06:41.672277+00', 'recorded', 'recorded', 200, 1, 0, '2026-11-29 14:06:41.672277+00', '2026-11-29 14:06:41.672277+00', '2026-11-29 14:06:41.684756+00', NULL, NULL, NULL, NULL, NULL, 'live', NULL, 11, '{"RecordType":"SubscriptionChange","Recipient":"bea+news@example.org","MessageID":null,"ChangedAt":"2026-11-29T14:06:41.672277+00:00","Origin":"Host","ChangedBy":"ada","Note":"Asked again","SuppressSending":false,"SuppressionReason":null}');
INSERT INTO public.hookrow_notifications VALUES (12, '\x6b0c31716eeff2b2026ce5b036612ce4', 'Open', 'c47e2f18-9b06-4d5a-b3f2-18d05a7ce603', 'zoë.müller@example.net', '2026-11-29 14:06:41.025935+00', 'recorded', 'recorded', 200, 1, 0, '2026-11-29 14:06:41.793424+00', '2026-11-29 14:06:41.793424+00', '2026-11-29 14:06:41.877349+00', NULL, NULL, NULL, 'postmark', 'shop', 'live', NULL, 12, '{"RecordType":"Open","MessageStream":"broadcast","MessageID":"c47e2f18-9b06-4d5a-b3f2-18d05a7ce603","Recipient":"zoë.müller@example.net","Tag":"newsletter","Metadata":{},"ServerID":23,"FirstOpen":true,"ReadSeconds":5,"ReceivedAt":"2026-11-29T14:06:41.025935Z","Platform":"Desktop","UserAgent":"Mozilla/5.0","Client":{},"OS":{},"Geo":{}}');
INSERT INTO public.hookrow_notifications VALUES (6, '\x6b0c3171c0a5306b8ddd944bcf583c7f', 'Delivery', '91b8e3d5-07fc-4a62-bc49-e52f6d30a704', NULL, '2026-11-29 14:06:41.025935+00', 'recorded', 'recorded', 200, 1, 0, '2026-11-29 14:06:41.61745+00', '2026-11-29 14:06:41.61745+00', '2026-11-29 14:06:41.618691+00', NULL, NULL, NULL, 'postmark', NULL, 'live', NULL, 6, NULL);


--
-- Data for Name: hookrow_subscribers; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hookrow_subscribers VALUES (1, 'ada@example.com', NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_subscribers VALUES (4, 'Carl.Upper@Example.COM', NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_subscribers VALUES (3, 'zoë.müller@example.net', '2026-11-29 14:06:41.025935+00', 'HardBounce', '2026-11-29 14:06:41.025935+00', '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_subscribers VALUES (6, 'gil@example.com', NULL, NULL, '2026-11-29 14:06:41.025935+00', '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_subscribers VALUES (5, 'dora@xn--exmple-cua.example', '2026-11-29 14:06:41.643498+00', 'Asked by phone', '2026-11-29 14:06:41.643498+00', '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_subscribers VALUES (2, 'bea+news@example.org', NULL, NULL, '2026-11-29 14:06:41.672277+00', '2026-11-29 14:06:40.91817+00');


--
-- Data for Name: hookrow_subscriptions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hookrow_subscriptions VALUES (1, 1, 1, NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_subscriptions VALUES (4, 1, 4, NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_subscriptions VALUES (5, 1, 5, NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_subscriptions VALUES (7, 2, 1, NULL, NULL, NULL, '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_subscriptions VALUES (3, 1, 3, '2026-11-29 14:06:41.025935+00', 'HardBounce', '2026-11-29 14:06:41.025935+00', '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_subscriptions VALUES (6, 1, 6, NULL, NULL, '2026-11-29 14:06:41.025935+00', '2026-11-29 14:06:40.91817+00');
INSERT INTO public.hookrow_subscriptions VALUES (2, 1, 2, '2026-11-29 14:06:41.655861+00', 'Asked by phone', '2026-11-29 14:06:41.655861+00', '2026-11-29 14:06:40.91817+00');


--
-- Data for Name: hookrow_suppression_changes; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Name: hookrow_dispatches_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.hookrow_dispatches_id_seq', 8, true);


--
-- Name: hookrow_lists_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.hookrow_lists_id_seq', 2, true);


--
-- Name: hookrow_notifications_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.hookrow_notifications_id_seq', 12, true);


--
-- Name: hookrow_subscribers_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.hookrow_subscribers_id_seq', 6, true);


--
-- Name: hookrow_subscriptions_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.hookrow_subscriptions_id_seq', 7, true);


--
-- Name: hookrow_dispatches hookrow_dispatches_message_id; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_dispatches
    ADD CONSTRAINT hookrow_dispatches_message_id UNIQUE (provider_message_id, subscriber_id);


--
-- Name: hookrow_dispatches hookrow_dispatches_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_dispatches
    ADD CONSTRAINT hookrow_dispatches_pkey PRIMARY KEY (id);


--
-- Name: hookrow_hours hookrow_hours_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_hours
    ADD CONSTRAINT hookrow_hours_pkey PRIMARY KEY (hour, record_type, reason, first_outcome, entry);


--
-- Name: hookrow_lists hookrow_lists_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_lists
    ADD CONSTRAINT hookrow_lists_pkey PRIMARY KEY (id);


--
-- Name: hookrow_meta hookrow_meta_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_meta
    ADD CONSTRAINT hookrow_meta_pkey PRIMARY KEY (name);


--
-- Name: hookrow_migrations hookrow_migrations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_migrations
    ADD CONSTRAINT hookrow_migrations_pkey PRIMARY KEY (revision);


--
-- Name: hookrow_notifications hookrow_notifications_fingerprint; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_notifications
    ADD CONSTRAINT hookrow_notifications_fingerprint UNIQUE (fingerprint);


--
-- Name: hookrow_notifications hookrow_notifications_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_notifications
    ADD CONSTRAINT hookrow_notifications_pkey PRIMARY KEY (id);


--
-- Name: hookrow_subscribers hookrow_subscribers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_subscribers
    ADD CONSTRAINT hookrow_subscribers_pkey PRIMARY KEY (id);


--
-- Name: hookrow_subscriptions hookrow_subscriptions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_subscriptions
    ADD CONSTRAINT hookrow_subscriptions_pkey PRIMARY KEY (id);


--
-- Name: hookrow_subscriptions hookrow_subscriptions_unique; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_subscriptions
    ADD CONSTRAINT hookrow_subscriptions_unique UNIQUE (list_id, subscriber_id);


--
-- Name: hookrow_suppression_changes hookrow_suppression_changes_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_suppression_changes
    ADD CONSTRAINT hookrow_suppression_changes_pkey PRIMARY KEY (role, row_key);


--
-- Name: hookrow_change_numbers; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hookrow_change_numbers ON public.hookrow_notifications USING btree (change_number, id) WHERE (change_number IS NOT NULL);


--
-- Name: hookrow_dispatches_list_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hookrow_dispatches_list_id ON public.hookrow_dispatches USING btree (list_id);


--
-- Name: hookrow_dispatches_subscriber_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hookrow_dispatches_subscriber_id ON public.hookrow_dispatches USING btree (subscriber_id);


--
-- Name: hookrow_expired; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hookrow_expired ON public.hookrow_notifications USING btree (id) WHERE ((retry_at IS NULL) AND (body IS NOT NULL) AND ((outcome)::text = ANY ((ARRAY['dispatch_not_found'::character varying, 'failed'::character varying, 'recipient_mismatch'::character varying, 'subscriber_not_found'::character varying])::text[])));


--
-- Name: hookrow_notifications_changes; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hookrow_notifications_changes ON public.hookrow_notifications USING btree (recipient) WHERE (((record_type)::text = 'SubscriptionChange'::text) OR (reason IS NOT NULL));


--
-- Name: hookrow_parked; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hookrow_parked ON public.hookrow_notifications USING btree (retry_at, id) WHERE (retry_at IS NOT NULL);


--
-- Name: hookrow_parked_message_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hookrow_parked_message_id ON public.hookrow_notifications USING btree (message_id) WHERE (retry_at IS NOT NULL);


--
-- Name: hookrow_recoveries; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hookrow_recoveries ON public.hookrow_notifications USING btree (id) WHERE (((first_outcome)::text <> 'recorded'::text) AND ((outcome)::text = 'recorded'::text) AND (recovery_counted IS NULL));


--
-- Name: hookrow_subscribers_email; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX hookrow_subscribers_email ON public.hookrow_subscribers USING btree (lower(((email)::text COLLATE "C")));


--
-- Name: hookrow_subscribers_reason; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hookrow_subscribers_reason ON public.hookrow_subscribers USING btree (suppression_reason, suppressed_at, id) WHERE ((suppressed_at IS NOT NULL) AND (length(suppression_reason) <= 64));


--
-- Name: hookrow_subscribers_suppressed; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hookrow_subscribers_suppressed ON public.hookrow_subscribers USING btree (suppressed_at, id) WHERE (suppressed_at IS NOT NULL);


--
-- Name: hookrow_subscriptions_subscriber_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hookrow_subscriptions_subscriber_id ON public.hookrow_subscriptions USING btree (subscriber_id);


--
-- Name: hookrow_dispatches hookrow_dispatches_list_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_dispatches
    ADD CONSTRAINT hookrow_dispatches_list_id_fkey FOREIGN KEY (list_id) REFERENCES public.hookrow_lists(id);


--
-- Name: hookrow_dispatches hookrow_dispatches_subscriber_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_dispatches
    ADD CONSTRAINT hookrow_dispatches_subscriber_id_fkey FOREIGN KEY (subscriber_id) REFERENCES public.hookrow_subscribers(id);


--
-- Name: hookrow_subscriptions hookrow_subscriptions_list_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_subscriptions
    ADD CONSTRAINT hookrow_subscriptions_list_id_fkey FOREIGN KEY (list_id) REFERENCES public.hookrow_lists(id);


--
-- Name: hookrow_subscriptions hookrow_subscriptions_subscriber_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hookrow_subscriptions
    ADD CONSTRAINT hookrow_subscriptions_subscriber_id_fkey FOREIGN KEY (subscriber_id) REFERENCES public.hookrow_subscribers(id);


--
-- PostgreSQL database dump complete
--


