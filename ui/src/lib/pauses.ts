// Pauses of queues, namespaces and everything: what each is of, and what it covers.

/** What a pause is of: without a namespace it holds in all of them, without a queue for all of them. */
export interface Scope {
  namespace?: string | null;
  queue?: string | null;
}

export const covers = (scope: Scope, namespace: string, queue: string): boolean =>
  (!scope.namespace || scope.namespace === namespace) && (!scope.queue || scope.queue === queue);

/** The widest pause of a queue of a namespace; the server lists the widest first. */
export const pauseOf = <P extends Scope>(pauses: P[], namespace: string, queue: string): P | undefined => pauses.find((one) => covers(one, namespace, queue));

/** "everything", "queue gpu", "namespace sales", "queue gpu in namespace sales". */
export function named({ namespace, queue }: Scope): string {
  if (!namespace && !queue) return "everything";
  if (!queue) return `namespace ${namespace}`;
  return namespace ? `queue ${queue} in namespace ${namespace}` : `queue ${queue}`;
}

/** What does not start meanwhile. */
export function stopped({ namespace, queue }: Scope): string {
  const where = namespace ? `in namespace ${namespace}` : "in any namespace";
  return queue ? `No task of queue ${queue} is started ${where}` : `No task is started ${where}`;
}

/** How requests name it. */
export const wanted = ({ namespace, queue }: Scope): { all?: true; namespace?: string; queue?: string } =>
  !namespace && !queue ? { all: true } : { ...(namespace ? { namespace } : {}), ...(queue ? { queue } : {}) };
